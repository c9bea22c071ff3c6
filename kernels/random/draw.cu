// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "random/draw.hpp"
#include "random/draw_math.hpp"
#include "random/elements.cuh"

#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {

namespace {

/// The elements that a thread's Philox blocks give: `count` or fewer from `first` on, if any.
struct BlockPlaces {
  std::int64_t first[kBlocksAThread];
  std::int64_t count[kBlocksAThread];
};

template <class T, bool kIsNormal>
struct Reals {
  static constexpr int kABlock = kRealsABlock;
  RandomFillArgs fill;
  bool is_aligned;

  __device__ void write(BlockPlaces const& places, ThreadWords const& words) const {
    float elements[kABlock * kBlocksAThread];
    random_elements<kIsNormal>(fill, words.at, elements);
#pragma unroll
    for (int i = 0; i < kBlocksAThread; ++i) {
      store_pack(static_cast<T*>(fill.data) + places.first[i],
                 rounded_pack<T>(elements + kABlock * i),
                 places.count[i],
                 is_aligned);
    }
  }
};

template <class T>
struct Integers {
  static constexpr int kABlock = kIntegersABlock;
  DrawIntegersArgs args;
  bool is_aligned;

  __device__ void write(BlockPlaces const& places, ThreadWords const& words) const {
#pragma unroll
    for (int i = 0; i < kBlocksAThread; ++i) {
      Pack<T, kABlock> pack;
#pragma unroll
      for (int k = 0; k < kABlock; ++k) {
        pack.lanes[k] = static_cast<T>(random_integer(args, words.of_block(i), k));
      }
      store_pack(static_cast<T*>(args.data) + places.first[i], pack, places.count[i], is_aligned);
    }
  }
};

/// Returns whether each Philox block of each sample begins at an address that is aligned to the
/// `Count` elements that it gives.
template <class T, int Count>
bool blocks_are_aligned(void const* data, DrawPlaces const& places) {
  return fits_pack<T, Count>(data) && places.columns % Count == 0;
}

/// Each thread has the columns of kBlocksAThread Philox blocks, each of one sample. `Index` holds
/// the number of all blocks, and is 32 bits wide if possible, because a division of 64 bits takes
/// as long as the random numbers.
template <class Index, class Numbers>
__global__ void __launch_bounds__(kBlockThreads)
    draw_kernel(__grid_constant__ DrawPlaces const places,
                __grid_constant__ Numbers const numbers,
                Index blocks_a_sample,
                Index blocks) {
  auto const first = first_block_of_thread<Index>();
  if (first >= blocks) {
    return;
  }
  auto const state = *places.state;
  BlockPlaces of_blocks;
  ThreadWords words;
#pragma unroll
  for (int i = 0; i < kBlocksAThread; ++i) {
    auto const number = first + static_cast<Index>(i * kBlockThreads);
    auto const row = static_cast<std::int64_t>(number / blocks_a_sample);
    auto const block = static_cast<std::int64_t>(number % blocks_a_sample);
    words.set(i, words_of_draw(places, state, row, block));
    auto const column = Numbers::kABlock * block;
    of_blocks.first[i] = row * places.columns + column;
    of_blocks.count[i] = number < blocks ? places.columns - column : 0;
  }
  numbers.write(of_blocks, words);
}

template <class Numbers>
void draw(CudaStream stream, char const* name, DrawPlaces const& places, Numbers const& numbers) {
  auto const blocks_a_sample = ceil_div<std::int64_t>(places.columns, Numbers::kABlock);
  auto const blocks = places.samples * blocks_a_sample;
  if (blocks == 0) {
    return;
  }
  auto const grid = grid_for(blocks, kBlocksAThread * kBlockThreads);
  // The last threads of the grid must not wrap around.
  if (blocks < std::numeric_limits<std::int32_t>::max()) {
    draw_kernel<std::uint32_t, Numbers>
        <<<grid, kBlockThreads, 0, stream>>>(places,
                                             numbers,
                                             static_cast<std::uint32_t>(blocks_a_sample),
                                             static_cast<std::uint32_t>(blocks));
  } else {
    draw_kernel<std::int64_t, Numbers>
        <<<grid, kBlockThreads, 0, stream>>>(places, numbers, blocks_a_sample, blocks);
  }
  check_launch(name);
}

}  // namespace

void draw_reals(CudaStream stream, DrawRealsArgs const& args) {
  with_real_type("draw_reals", args.fill.dtype, [&]<class T>(std::type_identity<T>) {
    with_distribution(args.fill.is_normal, [&](auto is_normal) {
      draw(stream,
           "draw_reals",
           args.places,
           Reals<T, is_normal.value>{
               args.fill, blocks_are_aligned<T, kRealsABlock>(args.fill.data, args.places)});
    });
  });
}

void draw_integers(CudaStream stream, DrawIntegersArgs const& args) {
  auto const draw_as = [&]<class T>(std::type_identity<T>) {
    draw(stream,
         "draw_integers",
         args.places,
         Integers<T>{args, blocks_are_aligned<T, kIntegersABlock>(args.data, args.places)});
  };
  if (args.dtype == DType::int32) {
    draw_as(std::type_identity<std::int32_t>{});
  } else {
    draw_as(std::type_identity<std::int64_t>{});
  }
}

}  // namespace msstream::ops::kernels
