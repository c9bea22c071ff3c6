// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report_host.hpp"
#include "ids/bag_offsets.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Writes a bag with invalid offsets into the report's IdTrap, if the report has one.
template <class Id>
void spring_trap(IdReport const& report, BagOffsets<Id> const& offsets, std::int64_t bag) {
  spring_trap(report, {bag, offsets.at[bag], offsets.at[bag + 1], offsets.capacity});
}

}  // namespace msstream::ops::kernels
