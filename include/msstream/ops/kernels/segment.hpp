// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops {

/// How the rows of one segment become one row; sqrtn is the sum divided by the square root of the
/// number of rows.
enum class SegmentReduction : std::uint8_t { sum, mean, sqrtn, max, min, prod };

namespace kernels {

/// Whether the reduction is a sum that is divided by something of the number of rows.
[[nodiscard]] constexpr bool divides(SegmentReduction reduction) {
  return reduction == SegmentReduction::mean || reduction == SegmentReduction::sqrtn;
}
[[nodiscard]] constexpr bool is_sum_reduction(SegmentReduction reduction) {
  return reduction == SegmentReduction::sum || divides(reduction);
}
[[nodiscard]] constexpr bool is_extremum_reduction(SegmentReduction reduction) {
  return reduction == SegmentReduction::max || reduction == SegmentReduction::min;
}

/// How it is told which rows make up a segment.
enum class SegmentForm : std::uint8_t {
  offsets,      ///< segment s has the places [offsets[s], offsets[s + 1]), none where BagOffsets
                ///< calls it bad
  sorted_ids,   ///< place i is in segment ids[i]; the ids ascend
  unsorted_ids  ///< place i is in segment ids[i]
};

/// Which segment each of `capacity` places is in. Ids < 0 and ≥ segments are in none.
struct SegmentLayout {
  SegmentForm form;
  std::int64_t segments;
  std::int64_t capacity;
  void const* indices;  ///< device: offsets, int64 [segments + 1], ascending, the last ≤ capacity;
                        ///< or ids [capacity] of `id_type`
  DType id_type = DType::int64;         ///< int32 or int64; offsets are always int64
  std::int64_t const* count = nullptr;  ///< of ids alone: device scalar ≤ capacity, how many exist;
                                        ///< null for all
  IdReport report = {};  ///< of reductions by offsets: of bad segments
};

/// output[s, :] = the reduction of the rows of segment s, `empty_value` where there are none.
///
/// NaN wins a maximum and a minimum; otherwise infinity and NaN are as in IEEE arithmetic. The work
/// is cut into equal parts that depend on the sizes alone, so that neither a long segment nor many
/// empty ones keep a warp busy and the same arguments give the same bits; on the host the rows are
/// taken in ascending order. Sums, means and sqrtn of unsorted ids that need not be `deterministic`
/// are added atomically on CUDA where the sizes say that this is faster.
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
/// From the sizes and kinds of `args`, no pointer of which is looked at. Asks no device. 0 where
/// the CUDA twin needs one launch and no workspace.
std::size_t segment_reduce_workspace_bytes(HostStream stream, SegmentArgs const& args);
std::size_t segment_reduce_workspace_bytes(CudaStream stream, SegmentArgs const& args);
void segment_reduce(HostStream stream, SegmentArgs const& args);
void segment_reduce(CudaStream stream, SegmentArgs const& args);

/// value_gradients[i, :] for the segment s that holds place i, 0 for places in none. With n rows in
/// s, x = values[i, :] and g = output_gradient[s, :]:
///
///   sum g, mean g / n, sqrtn g / √n; max and min: g / (how many rows equal the output) where x
///   does, else 0, NaN being equal to NaN; prod: g times the product of the other rows, which is
///   (product of all) / x where no row is 0, and 0 where two are.
///
/// Deterministic: what is counted with atomic operations are whole numbers.
struct SegmentGradientArgs {
  float const* output_gradient;  ///< [segments, width]
  float const* values;           ///< [capacity, width] for max, min and prod; else unused
  float const* output;           ///< [segments, width] for max and min; else unused
  std::int64_t width;
  SegmentLayout layout;
  SegmentReduction reduction;
  float* value_gradients;  ///< [capacity, width]
  void* workspace;         ///< segment_reduce_gradient_workspace_bytes(…) bytes, 256-byte aligned
};
/// As segment_reduce_workspace_bytes().
std::size_t segment_reduce_gradient_workspace_bytes(HostStream stream,
                                                    SegmentGradientArgs const& args);
std::size_t segment_reduce_gradient_workspace_bytes(CudaStream stream,
                                                    SegmentGradientArgs const& args);
void segment_reduce_gradient(HostStream stream, SegmentGradientArgs const& args);
void segment_reduce_gradient(CudaStream stream, SegmentGradientArgs const& args);

/// offsets[s] = number of ids < s, for sorted ids: the layout in its other form. Ids < 0 come
/// before every segment and ids ≥ segments after the last one: both are left out.
struct SegmentOffsetsArgs {
  SegmentLayout layout;   ///< of sorted ids
  std::int64_t* offsets;  ///< [segments + 1], written
};
void segment_offsets(HostStream stream, SegmentOffsetsArgs const& args);
void segment_offsets(CudaStream stream, SegmentOffsetsArgs const& args);

}  // namespace kernels
}  // namespace msstream::ops
