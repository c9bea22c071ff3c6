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

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    find_non_finite_kernel(__grid_constant__ NonFiniteSearch const search) {
  auto const before = *search.found;
  if (before != NonFiniteSearch::kNothingFound &&
      before >> NonFiniteSearch::kElementBits != search.number) {
    return;  // an earlier search has found an element
  }
  auto const count = search.row_count == nullptr
                         ? search.count
                         : min(search.count, *search.row_count * search.width);
  auto const* const values = static_cast<T const*>(search.values);
  for (auto i = grid_thread(); i < count; i += grid_stride()) {
    if (!isfinite(widen(values[i]))) {
      atomicMin(search.found,
                search.number << NonFiniteSearch::kElementBits | static_cast<std::uint64_t>(i));
      return;
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
