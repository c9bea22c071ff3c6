// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "elementwise/row_columns.cuh"
#include "elementwise/row_team.cuh"

#include <algorithm>
#include <cstdint>

/// The work of the kernels for the gradients of a layer norm, and its division among blocks.
namespace msstream::ops::kernels {

/// The columns of a row that a thread keeps in registers.
inline constexpr int kGradientColumns = 8;
/// The widest row that lanes of a warp share. A block shares a wider one.
inline constexpr std::int64_t kWidestRowOfLanes = 32 * kGradientColumns;

/// The division of the rows of a matrix into chunks of neighbouring rows, of which each has sums of
/// its own for the gradients of weight and bias. If rows stay in registers, a block has a chunk, of
/// which team t of n takes rows t, t + n, … The division depends on the sizes alone, and with it
/// the order of the additions.
struct LayerNormChunks {
  TeamSizes team;
  std::int64_t length;  ///< rows per chunk
  std::int64_t count;   ///< at least 1

  LayerNormChunks(std::int64_t rows, std::int64_t width)
      : team(std::min(width, kLongestRowInRegisters), kGradientColumns, width > kWidestRowOfLanes),
        length(width > kLongestRowInRegisters ? rows_of_tiles(rows, width) : rows_of_teams(rows)),
        count(std::max<std::int64_t>(ceil_div(rows, length), 1)) {}

  /// Returns the number of floats that the sums of all chunks need, [count, 2, width]: none for one
  /// chunk.
  [[nodiscard]] std::int64_t floats(std::int64_t width) const {
    return count == 1 ? 0 : count * 2 * width;
  }

 private:
  /// Returns a length of chunks for which there are about as many blocks as a GPU of 132
  /// multiprocessors with 1024 threads each holds at once. A team has at most one part of a sum,
  /// and the rows of a block are not fewer than four, so that the sums of the chunks are few.
  [[nodiscard]] std::int64_t rows_of_teams(std::int64_t rows) const {
    constexpr std::int64_t kEnoughThreads = std::int64_t{128} * 1024;
    auto const wanted = ceil_div(rows * team.threads, kEnoughThreads * team.teams);
    std::int64_t const least = team.teams < 4 ? 4 : 1;
    return team.teams * std::clamp<std::int64_t>(wanted, least, kTermsOfPart);
  }
  /// Returns a length of chunks for which there are about 1024 blocks, each for 32 columns of a
  /// chunk of 64 rows or more.
  [[nodiscard]] static std::int64_t rows_of_tiles(std::int64_t rows, std::int64_t width) {
    auto const wanted = std::min(ceil_div<std::int64_t>(1024 * 32, width), ceil_div(rows, 64L));
    return std::max<std::int64_t>(ceil_div(rows, std::max<std::int64_t>(wanted, 1)), 1);
  }
};

/// The arguments of the gradient kernels. The gradient of the input is not wanted if its pointer is
/// null, and those of weight and bias if `weight_sums` is null.
struct GradientPass {
  void const* input;
  void const* output_gradient;
  float const* weight;  ///< null unless the gradient of the input is wanted
  float const* means;
  float const* mean_rests;
  float const* reciprocals;
  std::int64_t rows;
  std::int64_t width;
  void* input_gradient = nullptr;
  float* weight_sums = nullptr;  ///< sums of the first chunk, for the gradient of the weight
  float* bias_sums = nullptr;
  std::int64_t sums_stride = 0;  ///< floats from one chunk's sums to the next one's
  std::int64_t chunk_length = 0;

  [[nodiscard]] __device__ SplitFloat mean_of(std::int64_t row) const {
    return {means[row], mean_rests != nullptr ? mean_rests[row] : 0.0F};
  }
};

}  // namespace msstream::ops::kernels
