// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/attention.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

Floats attention_scores(AnyTape& tape,
                        Floats const& queries,
                        Floats const& keys,
                        AttentionOptions<AnyRuntime> const& options,
                        std::source_location issued_at) {
  auto const scores = attention_scores(queries, keys, options, issued_at);
  return recorded(
      tape,
      "attention_scores",
      queries,
      keys,
      scores,
      [queries, keys, scores, options, issued_at](auto const& gradient, auto wanted) {
        return attention_scores_gradient(
            queries, keys, scores, gradient, options, wanted, issued_at);
      },
      issued_at);
}

Floats attention(AnyTape& tape,
                 Floats const& queries,
                 Floats const& keys,
                 Floats const& values,
                 AttentionOptions<AnyRuntime> const& options,
                 std::source_location issued_at) {
  return matmul(
      tape, attention_scores(tape, queries, keys, options, issued_at), values, {}, issued_at);
}

}  // namespace msstream::ops::detail
