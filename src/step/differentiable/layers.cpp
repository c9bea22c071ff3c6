// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"
#include "step/tape_state.hpp"

#include <msstream/ops/interaction.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>
#include <string>
#include <string_view>

namespace msstream::ops::detail {

AnyTensor dropout(AnyTape& tape,
                  AnyTensor const& input,
                  DropoutOptions const& options,
                  RandomGenerator<AnyRuntime> const& random,
                  std::string_view name,
                  std::source_location issued_at) {
  require_dropout("dropout", input.shape(), options);
  if (!tape.is_recording() || options.rate == 0.0F) {
    return input;
  }
  auto const samples = input.shape().rank() > 0 ? input.shape()[0] : 1;
  tape.state().draws.add(
      random.note_draw("dropout", name, options.first_sample, options.first_sample + samples));
  auto const result = dropout(input, options, random, name, issued_at);
  tape.note_input(input);
  tape.record_any(
      "dropout",
      result.output,
      [input, drawn = result.drawn, options, name = std::string(name), issued_at](
          AnyTape& playing, AnyTensor const& gradient) {
        if (playing.wants_gradient(input)) {
          playing.add_gradient(
              input, dropout_gradient(gradient, drawn, options, name, issued_at), issued_at);
        }
      },
      issued_at);
  return result.output;
}

Floats dot_interaction(AnyTape& tape,
                       Floats const& dense,
                       Floats const& embeddings,
                       std::source_location issued_at) {
  return recorded(
      tape,
      "dot_interaction",
      dense,
      embeddings,
      dot_interaction(dense, embeddings, issued_at),
      [dense, embeddings, issued_at](Floats const& gradient, WantedOperands wanted) {
        return dot_interaction_gradient(dense, embeddings, gradient, wanted, issued_at);
      },
      issued_at);
}

Floats l2_normalize(AnyTape& tape,
                    Floats const& input,
                    float epsilon,
                    std::source_location issued_at) {
  return recorded(
      tape,
      "l2_normalize",
      input,
      l2_normalize(input, epsilon, issued_at),
      [input, epsilon, issued_at](Floats const& gradient) {
        return l2_normalize_gradient(input, gradient, epsilon, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
