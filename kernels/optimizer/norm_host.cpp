// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/square_sums_host.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

namespace {

[[nodiscard]] std::int64_t chunks_of_parts(std::span<NormPart const> parts) {
  std::int64_t chunks = 0;
  for (auto const& part : parts) {
    chunks += chunks_of(part.count, kNormChunk);
  }
  return chunks;
}

void advance_state(StepAdvance const& advance, double norm, StepState& state) {
  if (advance.skip_non_finite && !std::isfinite(norm)) {
    state.gradient_factor = 0.0F;
    state.norm = norm;
    state.skipped += 1;
    advance_loss_scale(advance.loss_scaling, true);
    return;
  }
  state.step += 1;
  state.correction1 = correction_of(advance.rule.beta1, state.step);
  state.correction2 = correction_of(advance.rule.beta2, state.step);
  state.rate = rate_of_step(advance, state.base_rate, state.step);
  state.gradient_factor = gradient_factor_of(advance);
  advance_loss_scale(advance.loss_scaling, false);
  state.norm = norm;
  state.norm_scale = norm_scale_of(advance.clip_norm, norm);
}

/// Writes the sums of the squares of the chunks of one gradient.
void sum_chunks(NormPart const& part, StepAdvance const& advance, double* sums) {
  auto const first_row = part.is_part ? part.row_count[-1] : 0;
  auto const count = part.row_count == nullptr
                         ? part.count
                         : std::min(part.count, (*part.row_count - first_row) * part.width);
  auto const element = [&](std::int64_t i) {
    if (!part.is_part) {
      return part.gradient[i];
    }
    auto const row = i / part.width;
    return part.gradient[(first_row + row) * part.stride + (i - row * part.width)];
  };
  float const factor = gradient_factor_of(advance);
  parallel_ranges(
      chunks_of(part.count, kNormChunk),
      grain_of(kNormChunk * static_cast<std::int64_t>(sizeof(float))),
      [&](std::int64_t begin, std::int64_t end) {
        for (auto chunk = begin; chunk < end; ++chunk) {
          auto const first = chunk * kNormChunk;
          sums[chunk] = sum_of_chunk(first, std::min(count, first + kNormChunk), [&](auto i) {
            return counted(element(i), factor, part.clip_value, advance.skip_non_finite);
          });
        }
      });
}

/// Writes the sums of the squares of the chunks of all gradients, and returns the number of chunks.
std::int64_t sum_all_chunks(std::span<NormPart const> parts,
                            StepAdvance const& advance,
                            double* sums) {
  std::int64_t chunks = 0;
  for (auto const& part : parts) {
    sum_chunks(part, advance, sums + chunks);
    chunks += chunks_of(part.count, kNormChunk);
  }
  return chunks;
}

}  // namespace

std::size_t norm_workspace_bytes(std::span<NormPart const> parts) {
  return static_cast<std::size_t>(chunks_of_parts(parts)) * sizeof(double);
}

void reset_step(HostStream stream, StepState* state) {
  stream.run([state] { *state = StepState{}; });
}

void set_base_rate(HostStream stream, float base_rate, StepState* state) {
  stream.run([base_rate, state] { state->base_rate = base_rate; });
}

void advance_step(HostStream stream, StepAdvance const& advance, StepState* state) {
  stream.run([advance, state] { advance_state(advance, 0.0, *state); });
}

void advance_step_by_norm(HostStream stream,
                          StepAdvance const& advance,
                          std::span<NormPart const> parts,
                          void* workspace,
                          StepState* state) {
  stream.run([advance,
              parts = std::vector(parts.begin(), parts.end()),
              sums = static_cast<double*>(workspace),
              state] {
    auto const chunks = sum_all_chunks(parts, advance, sums);
    advance_state(advance, std::sqrt(sum_of_chunks(sums, chunks)), *state);
  });
}

void norm_squares(HostStream stream,
                  StepAdvance const& advance,
                  std::span<NormPart const> parts,
                  std::size_t shared,
                  void* workspace,
                  NormSquares* squares) {
  stream.run([advance,
              parts = std::vector(parts.begin(), parts.end()),
              shared,
              sums = static_cast<double*>(workspace),
              squares] {
    std::span const all(parts);
    auto const square_of = [&](std::span<NormPart const> some) {
      return sum_of_chunks(sums, sum_all_chunks(some, advance, sums));
    };
    squares->shared = square_of(all.first(shared));
    squares->own = square_of(all.subspan(shared));
  });
}

void advance_step_by_squares(HostStream stream,
                             StepAdvance const& advance,
                             NormSquares const* squares,
                             std::int64_t ranks,
                             StepState* state) {
  stream.run([advance, squares, ranks, state] {
    advance_state(advance, std::sqrt(square_of_norm(squares, ranks)), *state);
  });
}

}  // namespace msstream::ops::kernels
