// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/elementwise.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <span>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument if add() has no inputs, or if `output` is an input that a later
/// launch reads after an earlier launch has overwritten it.
inline void require_addable(std::span<float const* const> inputs, float const* output) {
  require(!inputs.empty(), "add: there are no inputs");
  auto const launched = std::min(inputs.size(), kAddInputsPerLaunch);
  for (auto k = launched; k < inputs.size(); ++k) {
    require(inputs[k] != output,
            "add: the output is input ",
            k,
            "; in place it may only be one of the first ",
            kAddInputsPerLaunch);
  }
}

}  // namespace msstream::ops::kernels
