// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/segment.hpp>
#include <msstream/ops/offset_policy.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] std::int64_t segments_of(Floats const& reduced) {
  return reduced.shape().rank() > 0 ? reduced.shape()[0] : 0;
}

}  // namespace

}  // namespace msstream::ops::detail
