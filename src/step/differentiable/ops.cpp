// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

Floats concat(AnyTape& tape, std::vector<Floats> blocks, std::source_location issued_at) {
  auto packed = concat(blocks, issued_at);
  for (auto const& block : blocks) {
    tape.note_inputs(block);
  }
  tape.record(
      "concat",
      packed,
      [blocks = std::move(blocks), issued_at](AnyTape& playing, Floats const& gradient) {
        std::vector<std::int64_t> widths;
        std::vector<bool> wanted;
        for (auto const& block : blocks) {
          widths.push_back(block.shape()[1]);
          wanted.push_back(playing.wants_gradient(block.any()));
        }
        auto const parts =
            split(gradient, std::span<std::int64_t const>(widths), wanted, issued_at);
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          if (parts[i]) {
            playing.add_gradient(blocks[i], *parts[i], issued_at);
          }
        }
      },
      issued_at);
  return packed;
}

Floats add(AnyTape& tape, std::vector<Floats> terms, std::source_location issued_at) {
  auto total = add(terms, issued_at);
  for (auto const& term : terms) {
    tape.note_inputs(term);
  }
  tape.record(
      "add",
      total,
      [terms = std::move(terms), issued_at](AnyTape& playing, Floats const& gradient) {
        for (auto const& term : terms) {
          if (playing.wants_gradient(term.any())) {
            playing.add_gradient(term, gradient, issued_at);
          }
        }
      },
      issued_at);
  return total;
}

Floats scale(AnyTape& tape, Floats const& input, float factor, std::source_location issued_at) {
  return recorded(
      tape,
      "scale",
      input,
      scale(input, factor, issued_at),
      [factor, issued_at](auto const& gradient) { return scale(gradient, factor, issued_at); },
      issued_at);
}

Floats sigmoid(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  auto const output = sigmoid(input, issued_at);
  return recorded_with(tape, "sigmoid", input, output, output, sigmoid_gradient, issued_at);
}

Floats sum(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded(
      tape,
      "sum",
      input,
      sum(input, issued_at),
      [shape = input.shape(), issued_at](auto const& gradient) {
        return broadcast(gradient, 1.0F, shape, issued_at);
      },
      issued_at);
}

Floats mean(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded(
      tape,
      "mean",
      input,
      mean(input, issued_at),
      [shape = input.shape(), issued_at](auto const& gradient) {
        return broadcast(gradient, 1.0F / static_cast<float>(shape.count()), shape, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
