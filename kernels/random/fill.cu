// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "random/elements.cuh"
#include "random/fill.hpp"

#include <type_traits>

namespace msstream::ops::kernels {

namespace {

/// Each thread fills the elements of kBlocksAThread Philox blocks.
template <class T, bool kIsNormal>
__global__ void __launch_bounds__(kBlockThreads)
    random_fill_kernel(__grid_constant__ RandomFillArgs const args, bool is_aligned) {
  auto const block = first_block_of_thread<std::int64_t>();
  if (4 * block >= args.count) {
    return;
  }
  ThreadWords words;
#pragma unroll
  for (int i = 0; i < kBlocksAThread; ++i) {
    words.set(i, philox(fill_counter(block + i * kBlockThreads), args.key));
  }
  float elements[4 * kBlocksAThread];
  random_elements<kIsNormal>(args, words.at, elements);
#pragma unroll
  for (int i = 0; i < kBlocksAThread; ++i) {
    auto const first = 4 * (block + i * kBlockThreads);
    if (first < args.count) {
      store_pack(static_cast<T*>(args.data) + first,
                 rounded_pack<T>(elements + 4 * i),
                 args.count - first,
                 is_aligned);
    }
  }
}

/// Each thread fills one element of a block of a matrix.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    random_fill_block_kernel(__grid_constant__ RandomFillArgs const args) {
  auto const i = grid_thread();
  if (i < args.count) {
    auto const element = args.of_block(i);
    auto const words = philox(fill_counter(element / 4), args.key);
    static_cast<T*>(args.data)[i] = narrowed<T>(random_element(args, words.at[element % 4]));
  }
}

}  // namespace

void random_fill(CudaStream stream, RandomFillArgs const& args) {
  if (args.count == 0) {
    return;
  }
  with_real_type("random_fill", args.dtype, [&]<class T>(std::type_identity<T>) {
    if (args.is_block()) {
      random_fill_block_kernel<T>
          <<<grid_for(args.count, kBlockThreads), kBlockThreads, 0, stream>>>(args);
    } else {
      with_distribution(args.is_normal, [&](auto is_normal) {
        random_fill_kernel<T, is_normal.value>
            <<<grid_for(args.count, 4 * kBlocksAThread * kBlockThreads),
               kBlockThreads,
               0,
               stream>>>(args, fits_pack<T, 4>(args.data));
      });
    }
  });
  check_launch("random_fill");
}

}  // namespace msstream::ops::kernels
