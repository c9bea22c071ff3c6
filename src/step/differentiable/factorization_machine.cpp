// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/interaction.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

AnyTensor factorization_machine(AnyTape* tape,
                                AnyTensor const& embeddings,
                                std::source_location issued_at) {
  auto output = factorization_machine(embeddings, issued_at);
  if (tape == nullptr) {
    return output;
  }
  tape->note_input(embeddings);
  tape->record_any(
      "factorization_machine",
      output,
      [embeddings, issued_at](AnyTape& playing, AnyTensor const& gradient) {
        if (playing.wants_gradient(embeddings)) {
          playing.add_gradient(embeddings,
                               factorization_machine_gradient(embeddings, gradient, issued_at),
                               issued_at);
        }
      },
      issued_at);
  return output;
}

}  // namespace msstream::ops::detail
