// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace msstream::ops {

/// How many of an operation's places exist: a scalar on the device, or none, where all do. No
/// parameter that a call deduces R from, so that a Tensor may be passed.
template <Runtime R = DefaultRuntime>
using DeviceCount = std::type_identity_t<std::optional<Tensor<std::int64_t, R>>>;

namespace detail {

/// Where an operation reads how many of its places exist, or null: all of them. Throws
/// std::invalid_argument unless the count is a scalar.
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
