// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "random/fill.hpp"
#include "random/fill_math.hpp"

namespace msstream::ops::kernels {

namespace {

/// Each thread fills the four elements of one Philox block.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    random_fill_kernel(__grid_constant__ RandomFillArgs const args) {
  auto const block = grid_thread();
  auto const first = 4 * block;
  if (first >= args.count) {
    return;
  }
  auto const words = philox(fill_counter(block), args.key);
  auto* const data = static_cast<T*>(args.data);
  for (int k = 0; k < 4; ++k) {
    if (first + k < args.count) {
      data[first + k] = narrowed<T>(random_element(args, words.at[k]));
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
  with_real_type("random_fill", args.dtype, [&]<class T>(std::type_identity<T>) {
    if (args.count > 0 && args.is_block()) {
      random_fill_block_kernel<T>
          <<<grid_for(args.count, kBlockThreads), kBlockThreads, 0, stream>>>(args);
      check_launch("random_fill");
    } else if (args.count > 0) {
      random_fill_kernel<T>
          <<<grid_for(args.count, 4 * kBlockThreads), kBlockThreads, 0, stream>>>(args);
      check_launch("random_fill");
    }
  });
}

}  // namespace msstream::ops::kernels
