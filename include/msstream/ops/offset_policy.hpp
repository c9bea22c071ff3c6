// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/id_trap.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/tensor/tensor.hpp>

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
};

namespace detail {

/// Returns id_report() for an OffsetPolicy.
template <Runtime R, class Written>
kernels::IdReport offset_report(char const* operation,
                                msstream::detail::DeviceState& device,
                                OffsetPolicy<R> const& policy,
                                Written& written) {
  return id_report(
      operation, device, {policy.out_of_range, "bad_bag_count"}, policy.bad_bag_count, written);
}

}  // namespace detail
}  // namespace msstream::ops
