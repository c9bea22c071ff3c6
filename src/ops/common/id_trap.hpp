// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::ops::detail {

/// The memory to which the kernels of one operation with OutOfRange::trap report a bad id or a bad
/// bag.
struct TrapOfOperation {
  kernels::IdTrap* trap;
  std::uint32_t operation;  ///< the number by which the report refers to the operation
};
/// Returns the memory to which the device's kernels report bad ids. The host checks it whenever it
/// waits for the device. Messages have the names of the tables, or their numbers if there are none.
[[nodiscard]] TrapOfOperation trap_of(DeviceState& device,
                                      char const* operation,
                                      std::vector<std::string> tables = {});

/// The policy for ids or bags that are out of range, and the name of their counter in error
/// messages.
struct ReportPolicy {
  OutOfRange out_of_range;
  char const* counter;
  std::vector<std::string> tables = {};  ///< names, for error messages

  ReportPolicy(OutOfRange policy,  // NOLINT(google-explicit-constructor): the policy alone is usual
               char const* counter_name = "bad_id_count")
      : out_of_range(policy), counter(counter_name) {}
};

/// Returns the way in which the kernels of `operation` report bad ids and bags. If there is a
/// counter, adds it to the tensors that the operation writes. Throws std::invalid_argument unless a
/// scalar counter is given exactly if the policy is OutOfRange::count.
[[nodiscard]] kernels::IdReport id_report(
    char const* operation,
    DeviceState& device,
    ReportPolicy const& policy,
    std::optional<TensorOf<std::int64_t>> const& counter,
    msstream::detail::Uses<AnyRuntime, AccessMode::write>& written);

}  // namespace msstream::ops::detail
