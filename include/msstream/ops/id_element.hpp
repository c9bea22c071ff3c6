// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace msstream::ops {

/// What ids and lengths may be.
template <class T>
concept IdElement = std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t>;

/// A scalar that only the device knows, or none. A call takes a Tensor for it.
template <class R>
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
