// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "dense/dense.hpp"
#include "mixed/cross.hpp"
#include "mixed/cross_products.hpp"
#include "mixed/summed_gradients.hpp"
#include "mixed/unfused_cross.hpp"

namespace msstream::ops::kernels {

void cross_forward(HostStream stream, CrossForwardArgs const& args) {
  unfused_cross_forward(stream, args);
}

std::size_t cross_gradient_workspace_bytes(HostStream, CrossGradientArgs const&) {
  return 0;
}
void cross_gradient(HostStream stream, CrossGradientArgs const& args) {
  unfused_cross_gradient(stream, args);
}

void cross_last_gradient(HostStream stream, CrossLastGradientArgs const& args) {
  unfused_cross_last_gradient(stream, args);
}

void cross_sum(HostStream stream, CrossSumArgs const& args) {
  with_real_type("cross_sum: a gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const at = [](void const* array, std::int64_t i) {
        return to_float(static_cast<T const*>(array)[i]);
      };
      auto* const sum = static_cast<T*>(args.sum);
      constexpr std::int64_t kArrays = 2 + 2 * kMostCrossLayers;
      parallel_ranges(
          args.count, grain_of(kArrays * sizeof(T)), [&](std::int64_t i, std::int64_t end) {
            for (; i < end; ++i) {
              float total = to_float(sum[i]) + (args.added != nullptr ? at(args.added, i) : 0.0F);
              for (auto const& layer : args.layers) {
                if (layer.output_gradient != nullptr) {
                  total += at(layer.output_gradient, i) * at(layer.projected, i);
                }
              }
              sum[i] = from_float<T>(total);
            }
          });
    });
  });
}

}  // namespace msstream::ops::kernels
