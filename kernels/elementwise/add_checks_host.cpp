// SPDX-License-Identifier: Apache-2.0
#include "elementwise/add_checks.hpp"
#include "elementwise/elementwise.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>

namespace msstream::ops::kernels {

void require_addable(std::span<float const* const> inputs, float const* output) {
  require(!inputs.empty(), "add: there are no inputs");
  auto const launched = std::min(inputs.size(), kAddInputsPerLaunch);
  for (auto k = launched; k < inputs.size(); ++k) {
    require(inputs[k] != output,
            "add: the output is input {}; in place it may only be one of the first {}",
            k,
            kAddInputsPerLaunch);
  }
}

}  // namespace msstream::ops::kernels
