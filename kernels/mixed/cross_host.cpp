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

}  // namespace msstream::ops::kernels
