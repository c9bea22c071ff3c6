// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>

namespace msstream::ops::detail {

/// The place where the kernels of one operation report a bad id or a bad bag with
/// OutOfRange::trap.
struct TrapOfOperation {
  kernels::IdTrap* trap;
  std::uint32_t operation;  ///< the number that stands for the operation's name in the report
};
/// Returns the device's trap. The host checks it whenever it waits for the device.
[[nodiscard]] TrapOfOperation trap_of(DeviceState& device, char const* operation);

/// The policy for bad ids or bags, and the name of the counter in error messages.
struct ReportPolicy {
  OutOfRange out_of_range;
  char const* counter;

  ReportPolicy(OutOfRange policy,  // NOLINT(google-explicit-constructor): the policy alone is usual
               char const* counter_name = "bad_id_count")
      : out_of_range(policy), counter(counter_name) {}
};

/// Returns where `operation` reports bad ids and bags. A counter is added to the tensors that the
/// operation writes. Throws std::invalid_argument unless a scalar counter is given exactly if the
/// policy is OutOfRange::count.
[[nodiscard]] kernels::IdReport id_report(
    char const* operation,
    DeviceState& device,
    ReportPolicy const& policy,
    std::optional<TensorOf<std::int64_t>> const& counter,
    msstream::detail::Uses<AnyRuntime, AccessMode::write>& written);

}  // namespace msstream::ops::detail
