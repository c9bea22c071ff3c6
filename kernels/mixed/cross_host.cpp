// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "mixed/cross.hpp"

namespace msstream::ops::kernels {

void cross(HostStream stream, CrossArgs const& args) {
  with_real_type("cross: the input", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const* const first = static_cast<T const*>(args.first);
      auto const* const projected = static_cast<T const*>(args.projected);
      auto const* const input = static_cast<T const*>(args.input);
      auto* const output = static_cast<T*>(args.output);
      parallel_ranges(args.count, grain_of(4 * sizeof(T)), [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
          output[i] =
              from_float<T>(to_float(first[i]) * to_float(projected[i]) + to_float(input[i]));
        }
      });
    });
  });
}

void cross_gradient(HostStream stream, CrossGradientArgs const& args) {
  with_real_type("cross_gradient: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const* const first = static_cast<T const*>(args.first);
      auto const* const projected = static_cast<T const*>(args.projected);
      auto const* const gradient = static_cast<T const*>(args.output_gradient);
      auto* const first_gradient = static_cast<T*>(args.first_gradient);
      auto* const projected_gradient = static_cast<T*>(args.projected_gradient);
      parallel_ranges(args.count, grain_of(5 * sizeof(T)), [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
          float const of_output = to_float(gradient[i]);
          float const of_projected = of_output * to_float(first[i]);
          first_gradient[i] = from_float<T>(of_output * to_float(projected[i]));
          projected_gradient[i] = from_float<T>(of_projected);
        }
      });
    });
  });
}

}  // namespace msstream::ops::kernels
