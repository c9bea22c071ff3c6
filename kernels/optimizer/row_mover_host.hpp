// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/optimizer_math.hpp"
#include "optimizer/optimizer_rows_host.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/optimizer_rule.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

using RowMover = void (*)(StepRule const&,
                          HostTable const&,
                          std::int64_t row,
                          float const* gradient);

/// Returns the function that updates rows of a table of type `dtype` by an optimizer of `kind`, and
/// rounds them in a way. The result is a pointer, so that the code that sums gradients is not
/// compiled once per optimizer and type. `what` names the table in the std::invalid_argument for
/// other types.
[[nodiscard]] RowMover row_mover(char const* what,
                                 OptimizerKind kind,
                                 DType dtype,
                                 RowRounding const& rounding = {});

/// Returns the constants of a rule of any kind for a step.
[[nodiscard]] StepRule step_rule_of(OptimizerRule const& rule,
                                    GroupNumbers const& numbers,
                                    StepState const* step);

}  // namespace msstream::ops::kernels
