// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/attention.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>
#include <utility>

namespace msstream::ops::detail {

AnyTensor attention_scores(AnyTape* tape,
                           AnyTensor const& queries,
                           AnyTensor const& keys,
                           AttentionOptions<AnyRuntime> const& options,
                           std::source_location issued_at) {
  auto scores = attention_scores(queries, keys, options, issued_at);
  if (tape == nullptr) {
    return scores;
  }
  tape->note_input(queries);
  tape->note_input(keys);
  tape->record_any(
      "attention_scores",
      scores,
      [queries, keys, scores, options, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        WantedOperands const wanted{.left = playing.wants_gradient(queries),
                                    .right = playing.wants_gradient(keys)};
        auto gradients =
            attention_scores_gradient(queries, keys, scores, gradient, options, wanted, issued_at);
        if (gradients.left) {
          playing.add_gradient(queries, *std::move(gradients.left), issued_at);
        }
        if (gradients.right) {
          playing.add_gradient(keys, *std::move(gradients.right), issued_at);
        }
      },
      issued_at);
  return scores;
}

AnyTensor attention(AnyTape* tape,
                    AnyTensor const& queries,
                    AnyTensor const& keys,
                    AnyTensor const& values,
                    AttentionOptions<AnyRuntime> const& options,
                    std::source_location issued_at) {
  return matmul(
      tape, attention_scores(tape, queries, keys, options, issued_at), values, {}, issued_at);
}

}  // namespace msstream::ops::detail
