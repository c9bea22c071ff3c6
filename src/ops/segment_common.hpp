// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "segment/segment.hpp"

#include <msstream/ops/segment.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {

/// The description of an operation on segments: its name, the rows of each segment, and the tensors
/// from which the kernels read the segments.
struct SegmentIssue {
  char const* name;
  kernels::SegmentLayout layout;
  Reads layout_reads;
};

/// Returns the description of an operation on the segments that `ids`, int32 or int64, name. Throws
/// std::invalid_argument for shapes that do not fit.
[[nodiscard]] SegmentIssue segments_by_ids(char const* name,
                                           kernels::SegmentForm form,
                                           AnyTensor const& ids,
                                           std::int64_t segments,
                                           std::optional<TensorOf<std::int64_t>> const& count);

/// Issues the reduction of `values` [capacity, width].
[[nodiscard]] Floats reduce_segments(SegmentIssue segments,
                                     Floats const& values,
                                     SegmentReduction reduction,
                                     SegmentSemantics semantics,
                                     bool deterministic,
                                     std::source_location issued_at,
                                     OffsetPolicy<AnyRuntime> const& policy = {});

/// Issues the gradient of a reduction. Throws std::invalid_argument for shapes that do not fit.
[[nodiscard]] Floats segment_gradient(SegmentIssue segments,
                                      Floats const& output_gradient,
                                      SegmentForward<AnyRuntime> const& forward,
                                      SegmentReduction reduction,
                                      std::source_location issued_at);

}  // namespace msstream::ops::detail
