// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "optimizer/non_finite.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

// The blocks of a launch agree on the least index in the second word, and the last block to finish
// moves it to the first word, which ends all later searches, but those of the inputs for a result.
// The third word counts the finished blocks, from -1 on. The fourth is 0 after the last input.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    find_non_finite_kernel(__grid_constant__ NonFiniteSearch const search) {
  if (!is_wanted(search)) {
    return;
  }
  auto const count = search.row_count == nullptr
                         ? search.count
                         : min(search.count, *search.row_count * search.width);
  auto const* const values = static_cast<T const*>(search.values);
  for (auto i = grid_thread(); i < count; i += grid_stride()) {
    if (!isfinite(widen(values[i]))) {
      atomicMin(search.found + 1,
                search.number << NonFiniteSearch::kElementBits | static_cast<std::uint64_t>(i));
      break;
    }
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x != 0) {
    return;
  }
  auto const finished = atomicAdd(search.found + 2, 1ULL) + 2;
  if (finished == gridDim.x) {
    search.found[0] = atomicAdd(search.found + 1, 0ULL);
    search.found[2] = ~0ULL;
    if (search.is_last_input) {
      search.found[3] = 0;
    }
  }
}

constexpr std::int64_t kMostBlocks = 1024;

}  // namespace

void find_non_finite(CudaStream stream, NonFiniteSearch const& search) {
  if (search.count == 0) {
    return;
  }
  auto const blocks = std::min(kMostBlocks, ceil_div<std::int64_t>(search.count, kBlockThreads));
  with_real_type("find_non_finite: values", search.dtype, [&](auto type) {
    find_non_finite_kernel<typename decltype(type)::type>
        <<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream.handle>>>(search);
  });
  check_launch("find_non_finite");
}

}  // namespace msstream::ops::kernels
