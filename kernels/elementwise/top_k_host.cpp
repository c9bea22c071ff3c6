// SPDX-License-Identifier: Apache-2.0
#include "elementwise/top_k.hpp"
#include "elementwise/top_key.hpp"

#include <algorithm>
#include <functional>

namespace msstream::ops::kernels {

std::size_t top_k_workspace_bytes(HostStream, std::int64_t columns) {
  return static_cast<std::size_t>(columns) * sizeof(std::uint64_t);
}

void top_k(HostStream stream, TopKArgs const& args) {
  stream.run([args] {
    auto* const keys = static_cast<std::uint64_t*>(args.workspace);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      auto const* const values = args.values + row * args.columns;
      for (std::int64_t c = 0; c < args.columns; ++c) {
        keys[c] = top_key(values[c], static_cast<std::uint32_t>(c));
      }
      std::partial_sort(keys, keys + args.k, keys + args.columns, std::greater<>());
      for (std::int64_t j = 0; j < args.k; ++j) {
        auto const column = column_of(keys[j]);
        args.top[row * args.k + j] = values[column];
        args.indices[row * args.k + j] = column;
      }
    }
  });
}

void top_k_gradient(HostStream stream, TopKGradientArgs const& args) {
  stream.run([args] {
    std::fill_n(args.value_gradients, args.rows * args.columns, 0.0F);
    for (std::int64_t i = 0; i < args.rows * args.k; ++i) {
      if (auto const column = args.indices[i]; column >= 0 && column < args.columns) {
        args.value_gradients[i / args.k * args.columns + column] = args.top_gradient[i];
      }
    }
  });
}

}  // namespace msstream::ops::kernels
