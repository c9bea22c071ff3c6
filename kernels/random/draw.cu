// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "random/draw.hpp"
#include "random/draw_math.hpp"
#include "random/fill_math.hpp"

#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {

namespace {

template <class T>
struct Reals {
  static constexpr int kABlock = kRealsABlock;
  RandomFillArgs fill;

  __device__ void write(std::int64_t element, PhiloxWords const& words, int k) const {
    static_cast<T*>(fill.data)[element] = narrowed<T>(random_element(fill, words.at[k]));
  }
};

template <class T>
struct Integers {
  static constexpr int kABlock = kIntegersABlock;
  DrawIntegersArgs args;

  __device__ void write(std::int64_t element, PhiloxWords const& words, int k) const {
    static_cast<T*>(args.data)[element] = static_cast<T>(random_integer(args, words, k));
  }
};

/// Each thread has the columns of one Philox block of one sample. `Index` holds the number of all
/// blocks, and is 32 bits wide if possible, because a division of 64 bits takes as long as the
/// random numbers.
template <class Index, class Numbers>
__global__ void __launch_bounds__(kBlockThreads)
    draw_kernel(__grid_constant__ DrawPlaces const places,
                __grid_constant__ Numbers const numbers,
                Index blocks_a_sample,
                Index blocks) {
  auto const thread = static_cast<Index>(grid_thread());
  if (thread >= blocks) {
    return;
  }
  auto const row = static_cast<std::int64_t>(thread / blocks_a_sample);
  auto const block = static_cast<std::int64_t>(thread % blocks_a_sample);
  auto const words = words_of_draw(places, *places.state, row, block);
  auto const column = Numbers::kABlock * block;
#pragma unroll
  for (int k = 0; k < Numbers::kABlock; ++k) {
    if (column + k < places.columns) {
      numbers.write(row * places.columns + column + k, words, k);
    }
  }
}

template <class Numbers>
void draw(CudaStream stream, char const* name, DrawPlaces const& places, Numbers const& numbers) {
  auto const blocks_a_sample = ceil_div<std::int64_t>(places.columns, Numbers::kABlock);
  auto const blocks = places.samples * blocks_a_sample;
  if (blocks == 0) {
    return;
  }
  auto const grid = grid_for(blocks, kBlockThreads);
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
    draw(stream, "draw_reals", args.places, Reals<T>{args.fill});
  });
}

void draw_integers(CudaStream stream, DrawIntegersArgs const& args) {
  if (args.dtype == DType::int32) {
    draw(stream, "draw_integers", args.places, Integers<std::int32_t>{args});
  } else {
    draw(stream, "draw_integers", args.places, Integers<std::int64_t>{args});
  }
}

}  // namespace msstream::ops::kernels
