// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "elementwise/unary.hpp"
#include "elementwise/unary_math.hpp"

namespace msstream::ops::kernels {

void unary(HostStream stream, UnaryArgs const& args) {
  with_real_type("unary: the input", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      with_function(args.function, args.parameter, args.limit, [&](auto function) {
        auto const* const input = static_cast<T const*>(args.input);
        auto* const output = static_cast<T*>(args.output);
        for (std::int64_t i = 0; i < args.count; ++i) {
          output[i] = from_float<T>(function(to_float(input[i])));
        }
      });
    });
  });
}

void unary_gradient(HostStream stream, UnaryGradientArgs const& args) {
  with_real_type("unary_gradient: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      with_function(args.function, args.parameter, args.limit, [&](auto function) {
        auto const* const saved = static_cast<T const*>(args.saved);
        auto const* const output_gradient = static_cast<T const*>(args.output_gradient);
        auto* const input_gradient = static_cast<T*>(args.input_gradient);
        for (std::int64_t i = 0; i < args.count; ++i) {
          input_gradient[i] =
              from_float<T>(function.gradient(to_float(saved[i]), to_float(output_gradient[i])));
        }
      });
    });
  });
}

}  // namespace msstream::ops::kernels
