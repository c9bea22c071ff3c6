// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/find.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"

namespace msstream::overlap {

/// Returns the report of one program: where the time of each device went, the findings with their
/// predictions, the verdict and notes. Throws as find() does.
[[nodiscard]] Report explain(Program const& program,
                             Collectives const& collectives,
                             FindOptions const& options);

}  // namespace msstream::overlap
