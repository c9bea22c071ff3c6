// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/matrix.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <source_location>

namespace msstream::ops {

/// Transposes matrices: [rows, columns] → [columns, rows], or [batch, rows, columns] → [batch,
/// columns, rows], float32. The gradient is the transpose of the output's gradient. Asynchronous;
/// capture-safe. Throws std::invalid_argument for another rank.
template <Runtime R>
[[nodiscard]] Tensor<float, R> transpose(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = input.shape();
  auto const rank = shape.rank();
  require(rank == 2 || rank == 3,
          "transpose: ",
          shape,
          "; expected [rows, columns] or [batch, rows, columns]");
  auto const batch = rank == 3 ? shape[0] : 1;
  auto const rows = shape[rank - 2];
  auto const columns = shape[rank - 1];
  Tensor<float, R> output(input.device(),
                          rank == 3 ? Shape{batch, columns, rows} : Shape{columns, rows});
  kernels::TransposeArgs const args{input.data(), output.data(), batch, rows, columns};
  issue(
      "transpose",
      reads(input),
      writes(output),
      [args](auto stream) { kernels::transpose(stream, args); },
      {},
      issued_at);
  return output;
}

/// Returns input + factor * I for a square matrix and the identity I, float32. The gradient of the
/// input is the output's gradient. Asynchronous; capture-safe. Throws std::invalid_argument unless
/// input is [width, width].
template <Runtime R>
[[nodiscard]] Tensor<float, R> add_identity(
    Tensor<float, R> const& input,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = input.shape();
  require(shape.rank() == 2 && shape[0] == shape[1],
          "add_identity: ",
          shape,
          "; expected a square matrix");
  Tensor<float, R> output(input.device(), shape);
  kernels::AddIdentityArgs const args{input.data(), output.data(), shape[0], factor};
  issue(
      "add_identity",
      reads(input),
      writes(output),
      [args](auto stream) { kernels::add_identity(stream, args); },
      {},
      issued_at);
  return output;
}

}  // namespace msstream::ops
