// SPDX-License-Identifier: Apache-2.0
#include "elementwise/unary.hpp"
#include "elementwise/unary_math.hpp"

namespace msstream::ops::kernels {

void unary(HostStream stream, UnaryArgs const& args) {
  stream.run([args] {
    with_function(args.function, args.parameter, args.limit, [&](auto function) {
      for (std::int64_t i = 0; i < args.count; ++i) {
        args.output[i] = function(args.input[i]);
      }
    });
  });
}

void unary_gradient(HostStream stream, UnaryGradientArgs const& args) {
  stream.run([args] {
    with_function(args.function, args.parameter, args.limit, [&](auto function) {
      for (std::int64_t i = 0; i < args.count; ++i) {
        args.input_gradient[i] = function.gradient(args.saved[i], args.output_gradient[i]);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
