// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/host.hpp"
#include "overlap/find/program.hpp"

#include <vector>

namespace msstream::overlap {

/// Returns the chain of activities of a device that ends with the window's last one: before each,
/// the one whose end let it begin, be it through its stream, a wait, a resource or the host.
[[nodiscard]] std::vector<Index> critical_path(Program const& program,
                                               Host const& host,
                                               Index device,
                                               Interval window);

}  // namespace msstream::overlap
