// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace msstream::ops {

/// The handling of a bag, sample or segment whose offsets do not ascend within the values. It
/// always has no rows, both in the operation and in its gradient; the policy decides how it is
/// reported.
template <Runtime R = DefaultRuntime>
struct OffsetPolicy {
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad bags.
  std::optional<Tensor<std::int64_t, R>> bad_bag_count = {};

  /// For the library itself: the same policy, on a device of whichever runtime.
  operator OffsetPolicy<detail::AnyRuntime>() const  // NOLINT(google-explicit-constructor)
      requires(!std::same_as<R, detail::AnyRuntime>) {
    return {out_of_range, bad_bag_count};
  }
};

}  // namespace msstream::ops
