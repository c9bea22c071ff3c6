// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes areas under ROC curves from scores that have been kept: of all examples together, or of
/// each group of examples. Exact: weights are counted as whole numbers, and pairs of examples of
/// equal score count a half. Deterministic, with the same bits on both runtimes.
struct RankedAreaArgs {
  std::int64_t count;          ///< examples, from 1 to 2^31 - 1
  float const* scores;         ///< [count], none NaN
  std::uint8_t const* labels;  ///< [count], 0 or 1
  float const* weights;        ///< [count]; null if every weight is 1
  /// The number of bits behind the binary point that are counted of a weight. The sum of all
  /// weights, so counted, must be below 2^62; that of a group, below 2^32.
  int weight_bits;
  std::int64_t const* groups;       ///< [count], the group of each example; null without groups
  std::int64_t const* group_count;  ///< device scalar; groups are below it
  void* workspace;                  ///< ranked_area_workspace_bytes() bytes, 256-byte aligned
  std::uint64_t* result;            ///< [kRankedAreaWords], written
};

/// The words of the result. Without groups, twice the pairs won, as four sums of 32-bit digits, and
/// the weights of both classes. With groups, a FixedSum of each group's weight times its area,
/// the sum of these weights, and the number of groups; groups of one class are left out.
enum RankedAreaWord : int {
  kTwiceWon = 0,
  kPositiveWeight = 4,
  kNegativeWeight = 5,
  kGroupAreas = 0,
  kGroupExamples = 3,
  kGroupsCounted = 4,
  kRankedAreaWords = 6,
};

/// Returns the bytes of workspace that ranked_area() needs, on any runtime.
[[nodiscard]] std::size_t ranked_area_workspace_bytes(std::int64_t count, bool has_groups);
void ranked_area(HostStream stream, RankedAreaArgs const& args);
void ranked_area(CudaStream stream, RankedAreaArgs const& args);

}  // namespace msstream::ops::kernels
