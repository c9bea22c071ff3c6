// SPDX-License-Identifier: Apache-2.0
#include "dense/interaction.hpp"

#include "common/real_types.hpp"
#include "mixed/half_interaction.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {
namespace {

/// Throws std::invalid_argument unless dense is [batch, width] and embeddings [batch, features,
/// width] or [batch, features * width], both of one type. Returns the number of features.
[[nodiscard]] std::int64_t require_vectors(char const* operation,
                                           AnyTensor const& dense,
                                           AnyTensor const& embeddings) {
  auto const& vectors = dense.shape();
  auto const& others = embeddings.shape();
  auto const require_shapes = [&](bool fit) {
    require(fit,
            "{}: dense {} of {}, embeddings {} of {}; expected [batch, width], and [batch, "
            "features, width] or [batch, features * width], of one type",
            operation,
            vectors,
            name_of(dense.dtype()),
            others,
            name_of(embeddings.dtype()));
  };
  require_shapes(dense.dtype() == embeddings.dtype());
  require_shapes(vectors.rank() == 2 && (others.rank() == 2 || others.rank() == 3));
  require_shapes(others[0] == vectors[0]);
  auto const width = vectors[1];
  if (others.rank() == 3) {
    require_shapes(others[2] == width);
    return others[1];
  }
  require_shapes(width > 0 ? others[1] % width == 0 : others[1] == 0);
  return width > 0 ? others[1] / width : 0;
}

}  // namespace

AnyTensor dot_interaction(AnyTensor const& dense,
                          AnyTensor const& embeddings,
                          std::source_location issued_at) {
  auto const features = require_vectors("dot_interaction", dense, embeddings);
  auto const batch = dense.shape()[0];
  auto const width = dense.shape()[1];
  AnyTensor output(
      dense.device(), dense.dtype(), Shape{batch, width + kernels::pairs_of(features + 1)});
  kernels::with_real_type("dot_interaction: a vector", dense.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    kernels::InteractionArgsOf<T> const args{
        dense.data_as<T>(), embeddings.data_as<T>(), output.data_as<T>(), batch, features, width};
    issue(
        "dot_interaction",
        reads(dense, embeddings),
        writes(output),
        [args](auto stream) { kernels::dot_interaction(stream, args); },
        {},
        issued_at);
  });
  return output;
}

AnyOperandGradients dot_interaction_gradient(AnyTensor const& dense,
                                             AnyTensor const& embeddings,
                                             AnyTensor const& output_gradient,
                                             WantedOperands wanted,
                                             std::source_location issued_at) {
  auto const features = require_vectors("dot_interaction_gradient", dense, embeddings);
  auto const batch = dense.shape()[0];
  auto const width = dense.shape()[1];
  require(output_gradient.shape() == (Shape{batch, width + kernels::pairs_of(features + 1)}) &&
              output_gradient.dtype() == dense.dtype(),
          "dot_interaction_gradient: dense {} of {}, embeddings {}, output gradient {} of {}",
          dense.shape(),
          name_of(dense.dtype()),
          embeddings.shape(),
          output_gradient.shape(),
          name_of(output_gradient.dtype()));
  AnyOperandGradients gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  msstream::detail::Uses<AnyRuntime, AccessMode::write> written;
  if (wanted.left) {
    written.add(gradients.left.emplace(dense.device(), dense.dtype(), dense.shape()));
  }
  if (wanted.right) {
    written.add(gradients.right.emplace(dense.device(), dense.dtype(), embeddings.shape()));
  }
  kernels::with_real_type("dot_interaction_gradient: a vector", dense.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    kernels::InteractionGradientArgsOf<T> const args{
        dense.data_as<T>(),
        embeddings.data_as<T>(),
        output_gradient.data_as<T>(),
        gradients.left ? gradients.left->data_as<T>() : nullptr,
        gradients.right ? gradients.right->data_as<T>() : nullptr,
        batch,
        features,
        width};
    issue(
        "dot_interaction_gradient",
        reads(dense, embeddings, output_gradient),
        written,
        [args](auto stream) { kernels::dot_interaction_gradient(stream, args); },
        {},
        issued_at);
  });
  return gradients;
}

Floats dot_interaction(Floats const& dense,
                       Floats const& embeddings,
                       std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          dot_interaction(dense.any(), embeddings.any(), issued_at)};
}

OperandGradients<AnyRuntime> dot_interaction_gradient(Floats const& dense,
                                                      Floats const& embeddings,
                                                      Floats const& output_gradient,
                                                      WantedOperands wanted,
                                                      std::source_location issued_at) {
  auto gradients = dot_interaction_gradient(
      dense.any(), embeddings.any(), output_gradient.any(), wanted, issued_at);
  OperandGradients<AnyRuntime> floats;
  if (gradients.left) {
    floats.left.emplace(msstream::detail::OfKnownType(), *std::move(gradients.left));
  }
  if (gradients.right) {
    floats.right.emplace(msstream::detail::OfKnownType(), *std::move(gradients.right));
  }
  return floats;
}

}  // namespace msstream::ops::detail
