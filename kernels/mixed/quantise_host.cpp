// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "mixed/quantise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace msstream::ops::kernels {
namespace {

template <class T>
[[nodiscard]] float largest_finite(T const* matrix, std::int64_t count) {
  float largest = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) {
    float const magnitude = std::abs(to_float(matrix[i]));
    if (std::isfinite(magnitude)) {
      largest = std::max(largest, magnitude);
    }
  }
  return largest;
}

void set_to_zero(std::uint8_t* codes, std::int64_t count) {
  if (codes != nullptr && count > 0) {
    std::memset(codes, 0, static_cast<std::size_t>(count));
  }
}

template <class T>
void quantise_as(QuantiseArgs const& args) {
  auto const* const matrix = static_cast<T const*>(args.matrix);
  float const largest = largest_finite(matrix, args.rows * args.columns);
  auto const scale = fp8_scale(largest, args.format);
  args.scales[kFp8Inverse] = scale.inverse;
  args.scales[kFp8Largest] = largest;
  auto const padded_rows = padded_to_fp8(args.rows);
  auto const padded_columns = padded_to_fp8(args.columns);
  set_to_zero(args.plain, padded_rows * padded_columns);
  set_to_zero(args.transposed, padded_rows * padded_columns);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    for (std::int64_t column = 0; column < args.columns; ++column) {
      float const value = to_float(matrix[row * args.columns + column]);
      // The product of a finite element and the scale is finite.
      auto const code = to_fp8(value * scale.scale, args.format);
      if (args.plain != nullptr) {
        args.plain[row * padded_columns + column] = code;
      }
      if (args.transposed != nullptr) {
        args.transposed[column * padded_rows + row] = code;
      }
    }
  }
}

}  // namespace

void quantise(HostStream stream, QuantiseArgs const& args) {
  require_real_type("quantise: a matrix", args.dtype);
  stream.run([args] {
    with_real_type("quantise: a matrix", args.dtype, [&](auto type) {
      quantise_as<typename decltype(type)::type>(args);
    });
  });
}

}  // namespace msstream::ops::kernels
