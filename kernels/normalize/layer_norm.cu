// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "elementwise/long_rows.cuh"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "elementwise/row_columns.cuh"
#include "elementwise/row_team.cuh"
#include "elementwise/rows_in_registers.cuh"
#include "normalize/layer_norm.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

namespace {

// Layer normalization of rows in registers avoids exact divisions and roots, which take many
// instructions: the kernel multiplies by 1 / width instead of dividing by the width, and takes a
// reciprocal root from rsqrtf(), whose error is at most 2 units in the last place.

/// The mean of a row. Deviations are taken from the row's first element first, so that a large mean
/// does not cost them digits (Chan, Golub, LeVeque: Algorithms for computing the sample variance,
/// 1983).
struct RowMean {
  float first;       ///< first element of the row
  float from_there;  ///< the mean minus the first element

  [[nodiscard]] __device__ float deviation_of(float x) const { return (x - first) - from_there; }
};

__device__ void store_moments(LayerNormArgs const& args,
                              std::int64_t row,
                              RowMean const& mean,
                              float reciprocal) {
  auto const split = SplitFloat::sum(mean.first, mean.from_there);
  args.means[row] = split.value;
  if (args.mean_rests != nullptr) {
    args.mean_rests[row] = split.rest;
  }
  args.reciprocals[row] = reciprocal;
}

/// Normalizes rows that stay in registers, loaded from where they are. A team of threads has `Rows`
/// rows at once, so that enough loads are in flight.
template <class T, class Team, int Count, int Rows, bool kIsAligned>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  detail::threads_of_rows(Count* Rows, !kIsAligned) /
                                      Team::kMostThreads)
    layer_norm_kernel(__grid_constant__ LayerNormArgs const args,
                      int log2_lanes,
                      float share_of_column) {
  using RowOfThread = RowColumns<T, Count, kIsAligned>;
  Team team(log2_lanes);
  RowOfThread const columns{team.lane, team.lanes};
  auto const width = static_cast<int>(args.width);
  auto const row = static_cast<std::int64_t>(blockIdx.x) * (Rows * team.teams) + team.team;
  auto const rows = static_cast<int>(min(args.rows - row, std::int64_t{Rows} * team.teams));
  auto const at = start_of_row(row, width);
  auto const* const input = static_cast<T const*>(args.input) + at;
  auto* const output = static_cast<T*>(args.output) + at;
  // Row r of the thread is `r * team.teams` rows after `row`.
  int const step = team.teams * width;
  int widths[Rows];
  typename RowOfThread::Packed packed[Rows] = {};
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    widths[r] = r * team.teams < rows ? width : 0;
    columns.for_each_vector(
        widths[r], [&](int v, int column) { packed[r].load(v, input + r * step + column); });
  }
  float values[Rows][Count] = {};
  RowMean means[Rows];
  float sums[Rows] = {};
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if constexpr (Team::kIsBlock) {
      // If the output overwrites the input, the barrier of the sum keeps the row unchanged until
      // all threads have read its first element.
      means[r].first = widen(input[r * step]);
    } else {
      means[r].first = team.of_first_lane(packed[r].at(0, 0));
    }
    columns.for_each(widths[r], [&](int k) {
      values[r][k] =
          packed[r].at(k / RowOfThread::kVector, k % RowOfThread::kVector) - means[r].first;
      sums[r] += values[r][k];
    });
  }
  team.sum(sums);
  float reciprocals[Rows] = {};
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    means[r].from_there = sums[r] * share_of_column;
    columns.for_each(widths[r], [&](int k) {
      values[r][k] -= means[r].from_there;
      reciprocals[r] += values[r][k] * values[r][k];
    });
  }
  team.sum(reciprocals);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    reciprocals[r] = rsqrtf(reciprocals[r] * share_of_column + args.epsilon);
    if (team.lane == 0 && widths[r] != 0) {
      store_moments(args, row + r * team.teams, means[r], reciprocals[r]);
    }
  }
  columns.for_each_vector(width, [&](int v, int column) {
    auto const weight = load_parameters<RowOfThread::kVector>(args.weight + column);
    auto const bias = load_parameters<RowOfThread::kVector>(args.bias + column);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      Columns<RowOfThread::kVector> result;
#pragma unroll
      for (int c = 0; c < RowOfThread::kVector; ++c) {
        result.at[c] =
            values[r][v * RowOfThread::kVector + c] * reciprocals[r] * weight.at[c] + bias.at[c];
      }
      if (widths[r] != 0) {
        store_vector(output + r * step + column, result);
      }
    }
  });
}

/// The layer norm of rows that begin at any element and are copied to shared memory.
template <class T>
struct LayerNormOfRows {
  using In = T;
  using Out = T;
  static constexpr int kInputs = 1;
  static constexpr bool kTakesManyRegisters = true;
  LayerNormArgs args;
  float share_of_column;

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.width; }
  [[nodiscard]] __host__ __device__ T const* input(int) const {
    return static_cast<T const*>(args.input);
  }
  [[nodiscard]] __host__ __device__ T* output() const { return static_cast<T*>(args.output); }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    static_assert(Place::kRows == 1 && Place::kVector == 1);
    bool const exists = place.exists(0);
    int const widths[1] = {exists ? place.width : 0};
    typename Place::Packed packed[1];
    place.load(0, widths, T{}, packed);
    float values[1][Place::kCount];
    Place::widen_to(values, packed);
    // The output is in place of the input. The first sum keeps the row unchanged until all threads
    // have read its first element.
    RowMean mean{exists ? widen(place.input(0, 0)[0]) : 0.0F, 0.0F};
    float sum[1] = {};
    place.for_each(widths[0], [&](int k, int) {
      values[0][k] -= mean.first;
      sum[0] += values[0][k];
    });
    team.sum(sum);
    mean.from_there = sum[0] * share_of_column;
    float squares[1] = {};
    place.for_each(widths[0], [&](int k, int) {
      values[0][k] -= mean.from_there;
      squares[0] += values[0][k] * values[0][k];
    });
    team.sum(squares);
    float const reciprocal = rsqrtf(squares[0] * share_of_column + args.epsilon);
    if (team.lane == 0 && exists) {
      store_moments(args, place.number(0), mean, reciprocal);
    }
    place.store([&](int, int k, int column) {
      return values[0][k] * reciprocal * args.weight[column] + args.bias[column];
    });
  }
};

/// Normalizes rows that are too long for registers, each of which a block reads three times.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfLongRows)
    layer_norm_of_long_rows_kernel(__grid_constant__ LayerNormArgs const args) {
  std::int64_t const row = blockIdx.x;
  auto const* const input = static_cast<T const*>(args.input) + row * args.width;
  auto* const output = static_cast<T*>(args.output) + row * args.width;
  auto const width = static_cast<float>(args.width);
  RowMean mean{widen(input[0]), 0.0F};
  LongSum sum;
  for_each_of_block(
      args.width,
      [&](std::int64_t column) { sum.add(widen(input[column]) - mean.first); },
      [&] { sum.fold(); });
  // If the output overwrites the input, the barriers of the reductions also keep the row unchanged
  // until all threads have read its first element.
  mean.from_there = reduce_block<Total>(sum.get()) / width;
  LongSum squares;
  for_each_of_block(
      args.width,
      [&](std::int64_t column) {
        float const deviation = mean.deviation_of(widen(input[column]));
        squares.add(deviation * deviation);
      },
      [&] { squares.fold(); });
  float const variance = reduce_block<Total>(squares.get()) / width;
  float const reciprocal = 1.0F / std::sqrt(variance + args.epsilon);
  for_each_of_block(args.width, [&](std::int64_t column) {
    output[column] =
        narrowed<T>(mean.deviation_of(widen(input[column])) * reciprocal * args.weight[column] +
                    args.bias[column]);
  });
  if (threadIdx.x == 0) {
    store_moments(args, row, mean, reciprocal);
  }
}

/// Launches layer_norm_kernel() with `Count` columns per thread, and Rows rows in flight per team.
template <class T, class Team, int Count, int Rows, bool kIsAligned>
void launch_in_registers(CudaStream stream, LayerNormArgs const& args) {
  TeamSizes const sizes(args.width, Count, Team::kIsBlock);
  layer_norm_kernel<T, Team, Count, Rows, kIsAligned>
      <<<grid_for(args.rows, Rows * sizes.teams), sizes.threads, 0, stream.handle>>>(
          args, sizes.log2_lanes, 1.0F / static_cast<float>(args.width));
}

/// Normalizes rows of type T of which not all pointers and widths allow vectors of 16 bytes. A
/// block that shares a row of floats loads it without a copy in shared memory.
template <class T>
void launch_unaligned_rows(CudaStream stream, LayerNormArgs const& args) {
  LayerNormOfRows<T> const function{args, 1.0F / static_cast<float>(args.width)};
  if (args.width <= kWidestStagedRowOfLanes) {
    launch_staged_lanes(stream.handle, function);
  } else if constexpr (std::is_same_v<T, float>) {
    launch_in_registers<T, BlockTeam<512>, 16, 1, false>(stream, args);
  } else {
    launch_staged_blocks(stream.handle, function);
  }
}

/// Normalizes rows of type T. If rows are aligned, a thread has 64 bytes of input in flight, or 128
/// bytes in rows of floats of 513 to 1,024 columns.
template <class T>
void launch_rows(CudaStream stream, LayerNormArgs const& args) {
  constexpr int kHalves = 4 / sizeof(T);
  bool const is_aligned =
      allows_whole_vectors<T>(args.width, args.input, args.output, args.weight, args.bias);
  if (args.width > kLongestRowInRegisters) {
    layer_norm_of_long_rows_kernel<T>
        <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
  } else if (!is_aligned) {
    launch_unaligned_rows<T>(stream, args);
  } else if (args.width <= 64) {
    launch_in_registers<T, LaneTeam, 8, 2 * kHalves, true>(stream, args);
  } else if (args.width <= 512) {
    launch_in_registers<T, LaneTeam, 16, kHalves, true>(stream, args);
  } else if (args.width <= 1024) {
    launch_in_registers<T, LaneTeam, 32, 1, true>(stream, args);
  } else {
    launch_in_registers<T, BlockTeam<512 / kHalves>, 16 * kHalves, 1, true>(stream, args);
  }
}

}  // namespace

void layer_norm(CudaStream stream, LayerNormArgs const& args) {
  if (args.rows == 0) {
    return;
  }
  with_real_type("layer_norm", args.dtype, [&](auto type) {
    launch_rows<typename decltype(type)::type>(stream, args);
  });
  check_launch("layer_norm");
}

}  // namespace msstream::ops::kernels
