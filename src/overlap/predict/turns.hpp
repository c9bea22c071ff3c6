// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/program.hpp"

#include <vector>

namespace msstream::overlap {

/// Finds the processes that use one device in turn, and gives each program the times in which
/// others work on its devices.
void find_turns(std::vector<Program>& programs);

}  // namespace msstream::overlap
