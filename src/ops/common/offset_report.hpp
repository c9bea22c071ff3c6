// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/id_trap.hpp"

#include <msstream/ops/common.hpp>

namespace msstream::ops::detail {

/// Returns the way in which the kernels of an operation report bad offsets under an OffsetPolicy.
[[nodiscard]] inline kernels::IdReport offset_report(
    char const* operation,
    DeviceState& device,
    OffsetPolicy<AnyRuntime> const& policy,
    msstream::detail::Uses<AnyRuntime, AccessMode::write>& written) {
  return id_report(
      operation, device, {policy.out_of_range, "bad_bag_count"}, policy.bad_bag_count, written);
}

}  // namespace msstream::ops::detail
