// SPDX-License-Identifier: Apache-2.0
#include "step/recorded.hpp"

#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

Floats transpose(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded(
      tape,
      "transpose",
      input,
      transpose(input, issued_at),
      [issued_at](auto const& gradient) { return transpose(gradient, issued_at); },
      issued_at);
}

Floats add_identity(AnyTape& tape,
                    Floats const& input,
                    float factor,
                    std::source_location issued_at) {
  return recorded(
      tape,
      "add_identity",
      input,
      add_identity(input, factor, issued_at),
      [](auto const& gradient) { return gradient; },
      issued_at);
}

std::vector<Floats> split(NoTape,
                          Floats const& packed,
                          std::span<std::int64_t const> widths,
                          std::source_location issued_at) {
  std::vector<Floats> blocks;
  for (auto& block : split(packed, widths, std::vector<bool>(widths.size(), true), issued_at)) {
    blocks.push_back(*std::move(block));
  }
  return blocks;
}

std::vector<Floats> split(AnyTape& tape,
                          Floats const& packed,
                          std::span<std::int64_t const> widths,
                          std::source_location issued_at) {
  // The blocks are views of one tensor, whose gradient the tape puts together from theirs.
  auto const all = unpacked(packed, widths, issued_at);
  auto const blocks_of =
      [rows = packed.shape()[0],
       widths = std::vector<std::int64_t>(widths.begin(), widths.end())](Floats const& elements) {
        std::vector<Floats> blocks;
        std::int64_t first = 0;
        for (auto const width : widths) {
          blocks.push_back(elements.rows(first, first + rows * width).reshaped({rows, width}));
          first += rows * width;
        }
        return blocks;
      };
  return blocks_of(recorded(
      tape,
      "split",
      packed,
      all,
      [blocks_of, issued_at](Floats const& gradient) {
        return concat(blocks_of(gradient), issued_at);
      },
      issued_at));
}

}  // namespace msstream::ops::detail
