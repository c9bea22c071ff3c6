// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/widened_host.hpp"
#include "dense/eigen_matrix.hpp"
#include "elementwise/math.hpp"
#include "mixed/fp8_product.hpp"
#include "mixed/quantise.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// Returns the numbers of a matrix [rows, columns] without its padding, before they are divided by
/// the scale.
[[nodiscard]] std::vector<float> numbers_of(Fp8Matrix const& matrix,
                                            std::int64_t rows,
                                            std::int64_t columns) {
  std::array<float, 256> number_of{};
  for (std::size_t code = 0; code < number_of.size(); ++code) {
    number_of[code] = from_fp8(static_cast<std::uint8_t>(code), matrix.format);
  }
  auto const pitch = padded_to_fp8(columns);
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      numbers.push_back(number_of[matrix.codes[row * pitch + column]]);
    }
  }
  return numbers;
}

}  // namespace

std::size_t fp8_product_workspace_bytes(HostStream, Fp8ProductArgs const&) {
  return 0;
}

void fp8_product(HostStream stream, Fp8ProductArgs const& args) {
  require_real_type("fp8_product: a result", args.dtype);
  stream.run([args] {
    auto const left = numbers_of(args.left, args.rows, args.inner);
    auto const right = numbers_of(args.right, args.columns, args.inner);
    auto const factor = fp8_factor(args.left.scales[kFp8Inverse], args.right.scales[kFp8Inverse]);
    Widened const bias(args.bias, args.columns, args.dtype);
    Narrowed results(args.result, args.rows * args.columns, args.dtype);
    matrix(results.data(), args.rows, args.columns).noalias() =
        matrix(left.data(), args.rows, args.inner) *
        matrix(right.data(), args.columns, args.inner).transpose();
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float* const result = results.data() + row * args.columns;
      for (std::int64_t column = 0; column < args.columns; ++column) {
        float const added = bias.data() != nullptr ? bias.data()[column] : 0.0F;
        float const sum = factor.times(result[column]) + added;
        result[column] = args.activation == Activation::relu ? rectify(sum) : sum;
      }
    }
  });
}

}  // namespace msstream::ops::kernels
