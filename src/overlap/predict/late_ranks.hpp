// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/report.hpp"
#include "overlap/recording/recording.hpp"

#include <span>

namespace msstream::overlap {

/// Adds to the findings of ranks that waited for others which rank came last the longest, and what
/// its own report finds. All arguments have the ranks in one order.
void name_late_ranks(std::span<Report> reports,
                     std::span<Recording const> ranks,
                     std::span<Collectives const> collectives);

}  // namespace msstream::overlap
