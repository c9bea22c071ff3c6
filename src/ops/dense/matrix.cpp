// SPDX-License-Identifier: Apache-2.0
#include "dense/matrix.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats transpose(Floats const& input, std::source_location issued_at) {
  auto const& shape = input.shape();
  auto const rank = shape.rank();
  require(rank == 2 || rank == 3,
          "transpose: {}; expected [rows, columns] or [batch, rows, columns]",
          shape);
  auto const batch = rank == 3 ? shape[0] : 1;
  auto const rows = shape[rank - 2];
  auto const columns = shape[rank - 1];
  Floats output(input.device(), rank == 3 ? Shape{batch, columns, rows} : Shape{columns, rows});
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

Floats add_identity(Floats const& input, float factor, std::source_location issued_at) {
  auto const& shape = input.shape();
  require(shape.rank() == 2 && shape[0] == shape[1],
          "add_identity: {}; expected a square matrix",
          shape);
  Floats output(input.device(), shape);
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

}  // namespace msstream::ops::detail
