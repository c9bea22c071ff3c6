// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/square_sums.cuh"

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

namespace {

struct NormPiece {
  NormPart part;
  unsigned first_block;
  bool aligned;
};
using NormTable = PieceTable<NormPiece, 64>;
static_assert(sizeof(NormTable) + 3 * sizeof(void*) <= 4096,
              "what every device takes as parameters of a kernel");

/// Loads elements of the rows of one table among the gradients of many. Quads lie within rows if
/// the place is `whole`.
template <int Quads>
__device__ typename QuadPlace<Quads>::Values load_part_of_many(QuadPlace<Quads> const& place,
                                                               NormPart const& part) {
  auto const* const first = part.gradient + part.row_count[-1] * part.stride;
  auto const at = [&](std::int64_t element) {
    auto const row = element / part.width;
    return first + row * part.stride + (element - row * part.width);
  };
  typename QuadPlace<Quads>::Values values{};
#pragma unroll
  for (int lane = 0; lane < place.kLanes; lane += 4) {
    if (place.whole) {
      Quad const quad = *reinterpret_cast<Quad const*>(at(place.element(lane)));
      for (int k = 0; k < 4; ++k) {
        values.lanes[lane + k] = quad.lanes[k];
      }
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      if (place.element(lane + k) < place.count) {
        values.lanes[lane + k] = *at(place.element(lane + k));
      }
    }
  }
  return values;
}

/// Adds the squares of one chunk of a gradient per block.
__global__ void __launch_bounds__(kBlockThreads)
    norm_parts_kernel(__grid_constant__ NormTable const table,
                      StepAdvance const advance,
                      double* sums) {
  float const factor = gradient_factor_of(advance);
  bool const keeps_infinite = advance.skip_non_finite;
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& part = piece.part;
  auto const first_row = part.is_part ? part.row_count[-1] : 0;
  auto const count = part.row_count == nullptr
                         ? part.count
                         : min(part.count, (*part.row_count - first_row) * part.width);
  auto const chunk = static_cast<std::int64_t>(blockIdx.x - piece.first_block);
  QuadPlace<kNormQuads> const place(
      chunk * (kNormQuads * kBlockThreads) + threadIdx.x, count, piece.aligned);
  double sum = 0.0;
  if (place.exists()) {
    auto const values = part.is_part ? load_part_of_many(place, part) : place.load(part.gradient);
#pragma unroll
    for (int lane = 0; lane < place.kLanes; ++lane) {
      // Elements that do not exist are 0, and add nothing.
      double const value = counted(values.lanes[lane], factor, part.clip_value, keeps_infinite);
      sum = __fma_rn(value, value, sum);
    }
  }
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
  }
}

/// Advances the step by the square of the norm, which thread 0 has. One thread computes each of the
/// numbers of the new step, because each takes a few hundred instructions in float64.
__device__ void advance_by(StepAdvance const& advance, StepState* state, double squares) {
  auto const step = state->step + 1;
  auto const base_rate = state->base_rate;
  __shared__ bool is_skipped_step;
  if (threadIdx.x == 0) {
    is_skipped_step = advance.skip_non_finite && !isfinite(squares);
  }
  __syncthreads();  // all threads have read the state, and see whether the step is skipped
  if (is_skipped_step) {
    if (threadIdx.x == 0) {
      state->gradient_factor = 0.0F;
      state->norm = sqrt(squares);
      state->skipped += 1;
      advance_loss_scale(advance.loss_scaling, true);
    }
    return;
  }
  // Two lanes of one warp compute the corrections together, another warp the rate meanwhile.
  if (threadIdx.x < 2) {
    auto const correction =
        correction_of(threadIdx.x == 0 ? advance.rule.beta1 : advance.rule.beta2, step);
    (threadIdx.x == 0 ? state->correction1 : state->correction2) = correction;
  }
  if (threadIdx.x == 32) {
    state->rate = rate_of_step(advance, base_rate, step);
  }
  if (threadIdx.x == 0) {
    auto const norm = sqrt(squares);
    state->step = step;
    state->gradient_factor = gradient_factor_of(advance);
    advance_loss_scale(advance.loss_scaling, false);
    state->norm = norm;
    state->norm_scale = norm_scale_of(advance.clip_norm, norm);
  }
}

__global__ void __launch_bounds__(kBlockThreads) advance_kernel(StepAdvance const advance,
                                                                StepState* state,
                                                                double const* sums,
                                                                std::int64_t sum_count) {
  advance_by(advance, state, sums == nullptr ? 0.0 : sum_of_chunks(sums, sum_count));
}
__global__ void __launch_bounds__(64) advance_by_ranks_kernel(StepAdvance const advance,
                                                              StepState* state,
                                                              NormSquares const* squares,
                                                              std::int64_t ranks) {
  advance_by(advance, state, threadIdx.x == 0 ? square_of_norm(squares, ranks) : 0.0);
}

/// Adds the sums of the chunks of shared gradients in block 0, those of the others in block 1.
__global__ void __launch_bounds__(kBlockThreads) norm_squares_kernel(double const* sums,
                                                                     std::int64_t shared_count,
                                                                     std::int64_t sum_count,
                                                                     NormSquares* squares) {
  bool const is_shared = blockIdx.x == 0;
  double const sum = is_shared ? sum_of_chunks(sums, shared_count)
                               : sum_of_chunks(sums + shared_count, sum_count - shared_count);
  if (threadIdx.x == 0) {
    (is_shared ? squares->shared : squares->own) = sum;
  }
}

__global__ void reset_kernel(StepState* state) {
  *state = StepState();
}

__global__ void set_base_rate_kernel(float base_rate, StepState* state) {
  state->base_rate = base_rate;
}

/// Launches the sums of the squares of all parts, and returns their number.
std::int64_t launch_norm_parts(CudaStream stream,
                               StepAdvance const& advance,
                               std::span<NormPart const> parts,
                               double* sums) {
  std::int64_t launched = 0;
  NormTable table;
  auto const launch = [&] {
    if (table.count > 0) {
      norm_parts_kernel<<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(
          table, advance, sums + launched);
      check_launch("gradient_norm");
      launched += table.blocks;
      table = {};
    }
  };
  for (auto const& part : parts) {
    if (table.full()) {
      launch();
    }
    if (part.count > 0) {
      bool const fits = quads_fit(part.gradient) &&
                        (!part.is_part || (part.width % 4 == 0 && part.stride % 4 == 0));
      table.add({part, 0, fits}, chunks_of(part.count, kNormChunk));
    }
  }
  launch();
  return launched;
}

}  // namespace

void reset_step(CudaStream stream, StepState* state) {
  reset_kernel<<<1, 1, 0, stream.handle>>>(state);
  check_launch("reset_step");
}

void set_base_rate(CudaStream stream, float base_rate, StepState* state) {
  set_base_rate_kernel<<<1, 1, 0, stream.handle>>>(base_rate, state);
  check_launch("set_learning_rate");
}

void advance_step(CudaStream stream, StepAdvance const& advance, StepState* state) {
  advance_kernel<<<1, 64, 0, stream.handle>>>(advance, state, nullptr, 0);
  check_launch("advance_step");
}

void advance_step_by_norm(CudaStream stream,
                          StepAdvance const& advance,
                          std::span<NormPart const> parts,
                          void* workspace,
                          StepState* state) {
  auto* const sums = static_cast<double*>(workspace);
  auto const launched = launch_norm_parts(stream, advance, parts, sums);
  advance_kernel<<<1, kBlockThreads, 0, stream.handle>>>(advance, state, sums, launched);
  check_launch("advance_step");
}

void norm_squares(CudaStream stream,
                  StepAdvance const& advance,
                  std::span<NormPart const> parts,
                  std::size_t shared,
                  void* workspace,
                  NormSquares* squares) {
  auto* const sums = static_cast<double*>(workspace);
  std::int64_t shared_count = 0;
  for (auto const& part : parts.first(shared)) {
    shared_count += chunks_of(part.count, kNormChunk);
  }
  auto const launched = launch_norm_parts(stream, advance, parts, sums);
  norm_squares_kernel<<<2, kBlockThreads, 0, stream.handle>>>(
      sums, shared_count, launched, squares);
  check_launch("norm_squares");
}

void advance_step_by_squares(CudaStream stream,
                             StepAdvance const& advance,
                             NormSquares const* squares,
                             std::int64_t ranks,
                             StepState* state) {
  advance_by_ranks_kernel<<<1, 64, 0, stream.handle>>>(advance, state, squares, ranks);
  check_launch("advance_step");
}

}  // namespace msstream::ops::kernels
