// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"

namespace msstream::overlap {

/// Notes that one rank of several does not tell how long its collectives waited for others, if they
/// ran with nothing beside them for a part of the window.
void note_lone_rank(Report& report, Program const& program, Collectives const& collectives);

}  // namespace msstream::overlap
