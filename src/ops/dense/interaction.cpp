// SPDX-License-Identifier: Apache-2.0
#include "dense/interaction.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Throws std::invalid_argument unless dense is [batch, width] and embeddings [batch, features,
/// width] or [batch, features * width]. Returns the number of features.
[[nodiscard]] std::int64_t require_vectors(char const* operation,
                                           Shape const& dense,
                                           Shape const& embeddings) {
  auto const require_shapes = [&](bool fit) {
    require(fit,
            "{}: dense {}, embeddings {}; expected [batch, width], and [batch, features, width] or "
            "[batch, features * width]",
            operation,
            dense,
            embeddings);
  };
  require_shapes(dense.rank() == 2 && (embeddings.rank() == 2 || embeddings.rank() == 3));
  require_shapes(embeddings[0] == dense[0]);
  auto const width = dense[1];
  if (embeddings.rank() == 3) {
    require_shapes(embeddings[2] == width);
    return embeddings[1];
  }
  require_shapes(width > 0 ? embeddings[1] % width == 0 : embeddings[1] == 0);
  return width > 0 ? embeddings[1] / width : 0;
}

}  // namespace

Floats dot_interaction(Floats const& dense,
                       Floats const& embeddings,
                       std::source_location issued_at) {
  auto const features = require_vectors("dot_interaction", dense.shape(), embeddings.shape());
  auto const batch = dense.shape()[0];
  auto const width = dense.shape()[1];
  Floats output(dense.device(), {batch, width + kernels::pairs_of(features + 1)});
  kernels::InteractionArgs const args{
      dense.data(), embeddings.data(), output.data(), batch, features, width};
  issue(
      "dot_interaction",
      reads(dense, embeddings),
      writes(output),
      [args](auto stream) { kernels::dot_interaction(stream, args); },
      {},
      issued_at);
  return output;
}

OperandGradients<AnyRuntime> dot_interaction_gradient(Floats const& dense,
                                                      Floats const& embeddings,
                                                      Floats const& output_gradient,
                                                      WantedOperands wanted,
                                                      std::source_location issued_at) {
  auto const features =
      require_vectors("dot_interaction_gradient", dense.shape(), embeddings.shape());
  auto const batch = dense.shape()[0];
  auto const width = dense.shape()[1];
  require(output_gradient.shape() == (Shape{batch, width + kernels::pairs_of(features + 1)}),
          "dot_interaction_gradient: dense {}, embeddings {}, output gradient {}",
          dense.shape(),
          embeddings.shape(),
          output_gradient.shape());
  OperandGradients<AnyRuntime> gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  kernels::InteractionGradientArgs args{dense.data(),
                                        embeddings.data(),
                                        output_gradient.data(),
                                        nullptr,
                                        nullptr,
                                        batch,
                                        features,
                                        width};
  msstream::detail::Uses<AnyRuntime, AccessMode::write> written;
  if (wanted.left) {
    args.dense_gradient = gradients.left.emplace(dense.device(), dense.shape()).data();
    written.add(*gradients.left);
  }
  if (wanted.right) {
    args.embeddings_gradient = gradients.right.emplace(dense.device(), embeddings.shape()).data();
    written.add(*gradients.right);
  }
  issue(
      "dot_interaction_gradient",
      reads(dense, embeddings, output_gradient),
      written,
      [args](auto stream) { kernels::dot_interaction_gradient(stream, args); },
      {},
      issued_at);
  return gradients;
}

}  // namespace msstream::ops::detail
