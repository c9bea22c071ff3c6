// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "place_source.cuh"

#include <msstream/ops/kernels/embedding_gradient.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Of [places, width] gradients, with what follows them aligned.
inline std::size_t stored_gradient_bytes(std::int64_t places, std::int64_t width) {
  constexpr std::size_t kAlignment = 256;
  auto const bytes =
      static_cast<std::size_t>(places) * static_cast<std::size_t>(width) * sizeof(float);
  return ceil_div(bytes, kAlignment) * kAlignment;
}

/// Of the output gradient.
inline std::int64_t gradient_row_count(RowGradientArgs const& args) {
  return args.pooling == Pooling::none ? place_capacity(args.bags) : args.bags.bags;
}

/// Whether four columns of each row of the output gradient can be read at once.
template <class T>
bool allows_whole_loads(RowGradientArgs const& args) {
  return allows_vectors(static_cast<T const*>(args.output_gradient), args.width, 4) &&
         (args.pooling != Pooling::max || allows_vectors(args.argmax, args.width, 4));
}

}  // namespace msstream::ops::kernels
