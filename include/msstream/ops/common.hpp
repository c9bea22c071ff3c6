// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace msstream::ops {

/// The element types of ids and lengths: int64 and int32.
template <class T>
concept IdElement = std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t>;

/// An optional device scalar with the number of an operation's elements that exist. Null if all
/// elements exist. The type prevents deduction of R from a function's parameter, so that a Tensor
/// may be passed.
template <Runtime R = DefaultRuntime>
using DeviceCount = std::type_identity_t<std::optional<Tensor<std::int64_t, R>>>;

/// The way to report a bag, sample or segment whose offsets do not ascend within the values. With
/// every policy it has no rows, both in the operation and in its gradient.
template <Runtime R = DefaultRuntime>
struct OffsetPolicy {
  OutOfRange out_of_range = OutOfRange::drop;  ///< what happens for a bad bag
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad bags.
  std::optional<Tensor<std::int64_t, R>> bad_bag_count = {};

  /// Converts to a policy without a runtime type. For use by the library only.
  template <std::same_as<OffsetPolicy<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {out_of_range, bad_bag_count};
  }
};

}  // namespace msstream::ops
