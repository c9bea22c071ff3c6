// SPDX-License-Identifier: Apache-2.0
#include "own_gradient.hpp"

#include <cmath>

namespace own {

void silu(msstream::HostStream stream, SiluArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      args.output[i] = args.input[i] / (1.0F + std::exp(-args.input[i]));
    }
  });
}

void silu_gradient(msstream::HostStream stream, SiluGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      float const x = args.input[i];
      float const s = 1.0F / (1.0F + std::exp(-x));
      args.input_gradient[i] = args.output_gradient[i] * s * (1.0F + x * (1.0F - s));
    }
  });
}

}  // namespace own
