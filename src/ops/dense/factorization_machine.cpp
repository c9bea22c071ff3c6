// SPDX-License-Identifier: Apache-2.0
#include "dense/factorization_machine.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <source_location>

namespace msstream::ops::detail {

AnyTensor factorization_machine(AnyTensor const& embeddings, std::source_location issued_at) {
  auto const& shape = embeddings.shape();
  require(shape.rank() == 3,
          "factorization_machine: embeddings {}; expected [batch, features, width]",
          shape);
  AnyTensor output(embeddings.device(), embeddings.dtype(), Shape{shape[0], 1});
  kernels::FactorizationMachineArgs const args{
      embeddings.data(), output.data(), shape[0], shape[1], shape[2], embeddings.dtype()};
  issue(
      "factorization_machine",
      reads(embeddings),
      writes(output),
      [args](auto stream) { kernels::factorization_machine(stream, args); },
      {},
      issued_at);
  return output;
}

AnyTensor factorization_machine_gradient(AnyTensor const& embeddings,
                                         AnyTensor const& output_gradient,
                                         std::source_location issued_at) {
  auto const& shape = embeddings.shape();
  require(shape.rank() == 3 && output_gradient.shape() == Shape{shape[0], 1} &&
              output_gradient.dtype() == embeddings.dtype(),
          "factorization_machine_gradient: embeddings {} of {}, output gradient {} of {}; expected "
          "[batch, features, width] and [batch, 1], of one type",
          shape,
          name_of(embeddings.dtype()),
          output_gradient.shape(),
          name_of(output_gradient.dtype()));
  AnyTensor gradient(embeddings.device(), embeddings.dtype(), shape);
  kernels::FactorizationMachineGradientArgs const args{embeddings.data(),
                                                       output_gradient.data(),
                                                       gradient.data(),
                                                       shape[0],
                                                       shape[1],
                                                       shape[2],
                                                       embeddings.dtype()};
  issue(
      "factorization_machine_gradient",
      reads(embeddings, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::factorization_machine_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
