// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "elementwise/row_columns.cuh"
#include "elementwise/row_team.cuh"
#include "normalize/layer_norm.hpp"
#include "normalize/layer_norm_long_rows.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

constexpr unsigned kSumThreads = 1024;

/// Stores the sums of a chunk, of which each team has those of its rows. In a block of LaneTeams
/// the sums are added pairwise: those of a warp's teams, then those of the warps.
template <class RowOfThread, class Team, int Count>
__device__ void store_sums(RowOfThread const& columns,
                           Team const& team,
                           GradientPass const& pass,
                           float (&sums)[2][Count]) {
  auto const chunk = static_cast<std::int64_t>(blockIdx.x) * pass.sums_stride;
  float* const stored[2] = {pass.weight_sums + chunk, pass.bias_sums + chunk};
  if constexpr (Team::kIsBlock) {
    columns.for_each_vector(static_cast<int>(pass.width), [&](int v, int column) {
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        Columns<RowOfThread::kVector> of_vector;
#pragma unroll
        for (int c = 0; c < RowOfThread::kVector; ++c) {
          of_vector.at[c] = sums[which][v * RowOfThread::kVector + c];
        }
        store_columns(stored[which] + column, of_vector);
      }
    });
  } else {
    constexpr int kWarps = kBlockThreads / 32;
    __shared__ float of_warps[kWarps][2][kWidestRowOfLanes];
    for (int distance = team.lanes; distance < 32; distance *= 2) {
#pragma unroll
      for (auto& of_columns : sums) {
#pragma unroll
        for (float& sum : of_columns) {
          sum += __shfl_xor_sync(kAllLanes, sum, distance);
        }
      }
    }
    auto const warp = threadIdx.x / 32;
    if (static_cast<int>(threadIdx.x) % 32 < team.lanes) {
      columns.for_each_vector(static_cast<int>(pass.width), [&](int v, int column) {
#pragma unroll
        for (int c = 0; c < RowOfThread::kVector; ++c) {
          of_warps[warp][0][column + c] = sums[0][v * RowOfThread::kVector + c];
          of_warps[warp][1][column + c] = sums[1][v * RowOfThread::kVector + c];
        }
      });
    }
    __syncthreads();
    int const column = static_cast<int>(threadIdx.x);
    if (column < pass.width) {
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        auto const pair = [&](int w) {
          return of_warps[w][which][column] + of_warps[w + 1][which][column];
        };
        stored[which][column] = (pair(0) + pair(2)) + (pair(4) + pair(6));
      }
    }
  }
}

/// Computes the gradients of a layer norm, for rows that stay in registers, in one pass over input
/// and output gradient. A team has `Rows` rows at once.
template <class T, class Team, int Count, int Rows, bool kIsAligned>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  (kIsAligned || Team::kIsBlock ? 1024 : 768) / Team::kMostThreads)
    layer_norm_gradient_kernel(__grid_constant__ GradientPass const pass,
                               int log2_lanes,
                               float share_of_column) {
  using RowOfThread = RowColumns<T, Count, kIsAligned>;
  constexpr int kVector = RowOfThread::kVector;
  Team team(log2_lanes);
  RowOfThread const columns{team.lane, team.lanes};
  auto const width = static_cast<int>(pass.width);
  bool const wants_input = pass.input_gradient != nullptr;
  // Makes the compiler load the weights again, since registers are for the rows.
  auto const weights_again = [&] {
    auto const* weights = pass.weight;
    asm volatile("" : "+l"(weights));
    return weights;
  };
  float parameter_sums[2][Count] = {};
  auto const first = static_cast<std::int64_t>(blockIdx.x) * pass.chunk_length;
  auto const rows = static_cast<int>(min(pass.chunk_length, pass.rows - first));
  int const step = team.teams * width;
  // All threads of the block take part in all sums, whether they have rows left or not.
  for (int done = 0; done < rows; done += Rows * team.teams) {
    auto const row = first + (done + team.team);
    auto const at = start_of_row(row, width);
    auto const* const input = static_cast<T const*>(pass.input) + at;
    auto const* const output_gradient = static_cast<T const*>(pass.output_gradient) + at;
    auto* const input_gradient = static_cast<T*>(pass.input_gradient) + at;
    typename RowOfThread::Packed inputs[Rows] = {};
    typename RowOfThread::Packed gradients[Rows] = {};
    SplitFloat means[Rows];
    float reciprocals[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      // A row that does not exist is all 0, and so is what it adds to sums.
      bool const exists = done + team.team + r * team.teams < rows;
      columns.for_each_vector(exists ? width : 0, [&](int v, int column) {
        inputs[r].load(v, input + r * step + column);
        gradients[r].load(v, output_gradient + r * step + column);
      });
      auto const row_of_r = row + r * team.teams;
      means[r] = exists ? pass.mean_of(row_of_r) : SplitFloat{0.0F, 0.0F};
      reciprocals[r] = exists ? pass.reciprocals[row_of_r] : 0.0F;
    }
    auto const normal = [&](int r, int v, int c) {
      return means[r].deviation_of(inputs[r].at(v, c)) * reciprocals[r];
    };
    // The sum of the weighted gradients of each row, and that of their products with the row.
    float sums[2 * Rows] = {};
    auto const* weights = weights_again();
    columns.for_each_vector(width, [&](int v, int column) {
      auto const weight =
          wants_input ? load_parameters<kVector>(weights + column) : Columns<kVector>();
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
#pragma unroll
        for (int c = 0; c < kVector; ++c) {
          float const gradient = gradients[r].at(v, c);
          float const normal_of_c = normal(r, v, c);
          float const scaled = gradient * weight.at[c];
          parameter_sums[0][v * kVector + c] += gradient * normal_of_c;
          parameter_sums[1][v * kVector + c] += gradient;
          sums[2 * r] += scaled;
          sums[2 * r + 1] += scaled * normal_of_c;
        }
      }
    });
    if (!wants_input) {
      continue;
    }
    team.sum(sums);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      inputs[r].forget_widened();
      gradients[r].forget_widened();
    }
    weights = weights_again();
    columns.for_each_vector(width, [&](int v, int column) {
      auto const weight = load_parameters<kVector>(weights + column);
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        float const mean = sums[2 * r] * share_of_column;
        float const weighted = sums[2 * r + 1] * share_of_column;
        Columns<kVector> result;
#pragma unroll
        for (int c = 0; c < kVector; ++c) {
          float const scaled = gradients[r].at(v, c) * weight.at[c];
          result.at[c] = reciprocals[r] * (scaled - mean - normal(r, v, c) * weighted);
        }
        if (done + team.team + r * team.teams < rows) {
          store_vector(input_gradient + r * step + column, result);
        }
      }
    });
  }
  if (pass.weight_sums != nullptr) {
    store_sums(columns, team, pass, parameter_sums);
  }
}

/// Adds the sums of the chunks, [chunks, 2, width]. A block has as many columns of both sums as
/// blockDim.x; thread (c, r) of it adds chunks r, r + blockDim.y, … of column c, and then the
/// threads of a column add their sums pairwise.
__global__ void __launch_bounds__(kSumThreads) add_chunks_kernel(float const* sums,
                                                                 std::int64_t chunks,
                                                                 std::int64_t width,
                                                                 float* weight_gradient,
                                                                 float* bias_gradient) {
  __shared__ float of_threads[kSumThreads];
  auto const column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  LongSum sum;
  std::int64_t chunk = threadIdx.y;
  while (column < 2 * width && chunk < chunks) {
    auto const end_of_part = min(chunk + kTermsOfPart * blockDim.y, chunks);
#pragma unroll 8
    for (; chunk < end_of_part; chunk += blockDim.y) {
      sum.add(sums[chunk * (2 * width) + column]);
    }
    sum.fold();
  }
  auto const thread = threadIdx.y * blockDim.x + threadIdx.x;
  float total = sum.get();
  for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
    of_threads[thread] = total;
    __syncthreads();
    if (threadIdx.y < rows) {
      total += of_threads[thread + rows * blockDim.x];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < 2 * width) {
    if (column < width) {
      weight_gradient[column] = total;
    } else {
      bias_gradient[column - width] = total;
    }
  }
}

/// Launches layer_norm_gradient_kernel() with `Count` columns per thread, and Rows rows in flight
/// per team.
template <class T, class Team, int Count, int Rows, bool kIsAligned>
void launch_in_registers(CudaStream stream, GradientPass const& pass, std::int64_t chunks) {
  TeamSizes const sizes(pass.width, Count, Team::kIsBlock);
  layer_norm_gradient_kernel<T, Team, Count, Rows, kIsAligned>
      <<<grid_for(chunks, 1), sizes.threads, 0, stream.handle>>>(
          pass, sizes.log2_lanes, 1.0F / static_cast<float>(pass.width));
}

/// Launches the kernels for rows of type T. Rows that are not aligned are divided among blocks and
/// teams as aligned ones are, because the division decides the order of additions.
template <class T>
void launch_rows(CudaStream stream, GradientPass const& pass, std::int64_t chunks) {
  constexpr int kHalves = 4 / sizeof(T);
  bool const is_aligned = allows_whole_vectors<T>(pass.width,
                                                  pass.input,
                                                  pass.output_gradient,
                                                  pass.weight,
                                                  pass.input_gradient,
                                                  pass.weight_sums,
                                                  pass.bias_sums);
  if (pass.width > kLongestRowInRegisters) {
    launch_long_rows<T>(stream, pass, chunks);
  } else if (pass.width <= kWidestRowOfLanes && is_aligned) {
    launch_in_registers<T, LaneTeam, 8, kHalves, true>(stream, pass, chunks);
  } else if (pass.width <= kWidestRowOfLanes) {
    launch_in_registers<T, LaneTeam, 8, 1, false>(stream, pass, chunks);
  } else if (is_aligned) {
    launch_in_registers<T, BlockTeam<1024>, 8, kHalves, true>(stream, pass, chunks);
  } else {
    launch_in_registers<T, BlockTeam<1024>, 8, 1, false>(stream, pass, chunks);
  }
}

void launch_pass(char const* what,
                 CudaStream stream,
                 DType dtype,
                 GradientPass pass,
                 LayerNormChunks const& chunks) {
  pass.chunk_length = chunks.length;
  with_real_type(what, dtype, [&](auto type) {
    launch_rows<typename decltype(type)::type>(stream, pass, chunks.count);
  });
  check_launch(what);
}

/// Computes the gradients of weight and bias, and that of the input if `input_gradient` is not
/// null.
void compute_parameter_gradients(char const* what,
                                 CudaStream stream,
                                 LayerNormParameterGradientArgs const& args,
                                 float const* weight,
                                 void* input_gradient) {
  LayerNormChunks const chunks(args.rows, args.width);
  GradientPass pass{args.input,
                    args.output_gradient,
                    weight,
                    args.means,
                    args.mean_rests,
                    args.reciprocals,
                    args.rows,
                    args.width,
                    input_gradient,
                    args.weight_gradient,
                    args.bias_gradient};
  if (chunks.count == 1) {
    launch_pass(what, stream, args.dtype, pass, chunks);
    return;
  }
  auto* const sums = static_cast<float*>(args.workspace);
  pass.weight_sums = sums;
  pass.bias_sums = sums + args.width;
  pass.sums_stride = 2 * args.width;
  launch_pass(what, stream, args.dtype, pass, chunks);
  unsigned const columns = args.width <= 512 ? 8 : 32;
  add_chunks_kernel<<<grid_for(2 * args.width, columns),
                      dim3(columns, kSumThreads / columns),
                      0,
                      stream.handle>>>(
      sums, chunks.count, args.width, args.weight_gradient, args.bias_gradient);
  check_launch(what);
}

}  // namespace

void layer_norm_input_gradient(CudaStream stream, LayerNormInputGradientArgs const& args) {
  if (args.rows == 0) {
    return;
  }
  launch_pass("layer_norm_input_gradient",
              stream,
              args.dtype,
              {args.input,
               args.output_gradient,
               args.weight,
               args.means,
               args.mean_rests,
               args.reciprocals,
               args.rows,
               args.width,
               args.input_gradient},
              LayerNormChunks(args.rows, args.width));
}

std::size_t layer_norm_workspace_bytes(CudaStream, std::int64_t rows, std::int64_t width) {
  return static_cast<std::size_t>(LayerNormChunks(rows, width).floats(width)) * sizeof(float);
}

void layer_norm_parameter_gradient(CudaStream stream, LayerNormParameterGradientArgs const& args) {
  compute_parameter_gradients("layer_norm_parameter_gradient", stream, args, nullptr, nullptr);
}

void layer_norm_gradient(CudaStream stream,
                         LayerNormParameterGradientArgs const& args,
                         float const* weight,
                         void* input_gradient) {
  compute_parameter_gradients("layer_norm_gradient", stream, args, weight, input_gradient);
}

}  // namespace msstream::ops::kernels
