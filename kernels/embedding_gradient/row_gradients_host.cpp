// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/row_gradients_host.hpp"

#include "embedding_gradient/gradients.hpp"

#include <cstddef>

namespace msstream::ops::kernels {

std::size_t row_gradient_workspace_bytes(HostStream, BagView const&, Pooling, std::int64_t) {
  return 0;
}

void embedding_row_gradients(HostStream stream, RowGradientArgs const& args) {
  with_row_gradients(args, [&]<class Gradients>(std::type_identity<Gradients>, auto const& bags) {
    stream.run([args, bags] {
      Gradients const gradients(args, bags);
      with_columns(args.width, [&](auto columns) {
        gradients.for_ranges([&](std::int64_t begin, std::int64_t end) {
          for (auto u = begin; u < end; ++u) {
            gradients.sum(columns, u, args.row_gradients + u * args.width);
          }
        });
      });
    });
  });
}

}  // namespace msstream::ops::kernels
