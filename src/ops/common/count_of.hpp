// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>

namespace msstream::ops::detail {

/// Returns the device pointer from which an operation reads how many of its elements exist, or null
/// if all exist. Throws std::invalid_argument unless the count is a scalar.
[[nodiscard]] inline std::int64_t const* count_of(char const* operation,
                                                  DeviceCount<AnyRuntime> const& count) {
  require(!count || count->count() == 1,
          "{}: a count of shape {}; expected a scalar",
          operation,
          count ? count->shape() : Shape{});
  return count ? count->data() : nullptr;
}

}  // namespace msstream::ops::detail
