// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/half_copies.hpp"

#include <msstream/ops/optimizer.hpp>

#include <memory>
#include <source_location>
#include <vector>

namespace msstream::ops::detail {

/// Updates dense parameters and writes their copies: copies[i] is that of parameters[i], or null.
/// No elements in `copies`: no parameter has one.
void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::vector<std::shared_ptr<HalfCopy>> const& copies,
                  std::source_location issued_at);

}  // namespace msstream::ops::detail
