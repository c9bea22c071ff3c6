// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns whether a reduction divides each segment's sum by a function of the number of its rows.
[[nodiscard]] constexpr bool divides(SegmentReduction reduction) {
  return reduction == SegmentReduction::mean || reduction == SegmentReduction::sqrtn;
}
[[nodiscard]] constexpr bool is_sum_reduction(SegmentReduction reduction) {
  return reduction == SegmentReduction::sum || divides(reduction);
}
[[nodiscard]] constexpr bool is_extremum_reduction(SegmentReduction reduction) {
  return reduction == SegmentReduction::max || reduction == SegmentReduction::min;
}

/// The form in which the rows of each segment are given.
enum class SegmentForm : std::uint8_t {
  offsets,      ///< segment s has the rows [offsets[s], offsets[s + 1]), or none if its offsets are
                ///< invalid
  sorted_ids,   ///< row i is in segment ids[i]; the ids ascend
  unsorted_ids  ///< row i is in segment ids[i]; the ids are in any order
};

/// The segment of each of `capacity` rows. A row whose id is < 0 or ≥ segments is in no segment.
struct SegmentLayout {
  SegmentForm form;
  std::int64_t segments;
  std::int64_t capacity;
  void const* indices;  ///< device: int64 offsets [segments + 1], ascending, the last ≤ capacity;
                        ///< or ids [capacity] of `id_type`
  DType id_type = DType::int64;  ///< int32 or int64; offsets are always int64
  /// The number of ids that exist, a device scalar ≤ capacity; null if all exist. For ids only.
  std::int64_t const* count = nullptr;
  /// The report of segments with invalid offsets, for reductions by offsets.
  IdReport report = {};
  bool ascend = false;  ///< for offsets: all have been checked and are valid
};

/// Computes output[s, :] = the reduction of the rows of segment s, or `empty_value` if it has no
/// rows.
///
/// A maximum or a minimum is NaN if any element is NaN; otherwise infinity and NaN follow IEEE
/// arithmetic. The work is cut into equal parts that depend on the sizes alone, so that neither one
/// long segment nor many empty ones occupy a single warp, and equal arguments give equal bits. On
/// the host the rows are taken in ascending order. If `deterministic` is not set, sums, means and
/// sqrtn of unsorted ids are added atomically on CUDA if the sizes indicate that this is faster.
struct SegmentArgs {
  float const* values;  ///< [capacity, width]
  std::int64_t width;
  SegmentLayout layout;
  SegmentReduction reduction;
  float empty_value;  ///< 0 for a sum
  bool deterministic;
  float* output;    ///< [segments, width]
  void* workspace;  ///< segment_reduce_workspace_bytes(…) bytes, 256-byte aligned
};
/// Returns the bytes of workspace that segment_reduce() needs, from the sizes and kinds in `args`,
/// without a read of its pointers or a query of the device. Returns 0 where the CUDA implementation
/// needs one launch and no workspace.
std::size_t segment_reduce_workspace_bytes(HostStream stream, SegmentArgs const& args);
std::size_t segment_reduce_workspace_bytes(CudaStream stream, SegmentArgs const& args);
void segment_reduce(HostStream stream, SegmentArgs const& args);
void segment_reduce(CudaStream stream, SegmentArgs const& args);

/// Computes the gradient of segment_reduce(): value_gradients[i, :] for the segment s of row i, 0
/// for a row in no segment. With n rows in s, x = values[i, :] and g = output_gradient[s, :]:
///
///   sum: g. mean: g / n. sqrtn: g / √n. max and min: g / (number of rows equal to the output)
///   where x equals the output, otherwise 0; NaN counts as equal to NaN. prod: g times the product
///   of the other rows, which is (product of all) / x where no row is 0, and 0 where two rows are
///   0.
///
/// Deterministic: atomic operations count integers only.
struct SegmentGradientArgs {
  float const* output_gradient;  ///< [segments, width]
  float const* values;           ///< [capacity, width] for max, min and prod; otherwise unused
  float const* output;           ///< [segments, width] for max and min; otherwise unused
  std::int64_t width;
  SegmentLayout layout;
  SegmentReduction reduction;
  float* value_gradients;  ///< [capacity, width]
  void* workspace;         ///< segment_reduce_gradient_workspace_bytes(…) bytes, 256-byte aligned
};
/// Returns the bytes of workspace that segment_reduce_gradient() needs, from the sizes and kinds in
/// `args`, without a read of its pointers or a query of the device.
std::size_t segment_reduce_gradient_workspace_bytes(HostStream stream,
                                                    SegmentGradientArgs const& args);
std::size_t segment_reduce_gradient_workspace_bytes(CudaStream stream,
                                                    SegmentGradientArgs const& args);
void segment_reduce_gradient(HostStream stream, SegmentGradientArgs const& args);
void segment_reduce_gradient(CudaStream stream, SegmentGradientArgs const& args);

/// Computes the offsets of segments from sorted ids: offsets[s] = the number of ids < s. Ids < 0
/// come before every segment and ids ≥ segments after the last one; both are in no segment of the
/// offsets.
struct SegmentOffsetsArgs {
  SegmentLayout layout;   ///< segments by sorted ids
  std::int64_t* offsets;  ///< [segments + 1], written
};
void segment_offsets(HostStream stream, SegmentOffsetsArgs const& args);
void segment_offsets(CudaStream stream, SegmentOffsetsArgs const& args);

}  // namespace msstream::ops::kernels
