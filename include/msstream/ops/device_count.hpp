// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace msstream::ops {

/// An optional device scalar with the number of an operation's elements that exist. Null if all
/// elements exist. The alias prevents deduction of R from this parameter, so that a Tensor may be
/// passed.
template <Runtime R = DefaultRuntime>
using DeviceCount = std::type_identity_t<std::optional<Tensor<std::int64_t, R>>>;

namespace detail {

/// Returns the device pointer from which an operation reads the number of elements that exist, or
/// null if all exist. Throws std::invalid_argument unless the count is a scalar.
template <Runtime R>
[[nodiscard]] std::int64_t const* count_of(char const* operation,
                                           std::optional<Tensor<std::int64_t, R>> const& count) {
  require(!count || count->count() == 1,
          operation,
          ": a count of shape ",
          count ? count->shape() : Shape{},
          "; expected a scalar");
  return count ? count->data() : nullptr;
}

}  // namespace detail
}  // namespace msstream::ops
