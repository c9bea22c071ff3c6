// SPDX-License-Identifier: Apache-2.0
#include "segment/segment.hpp"

#include "ops/segment_common.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

SegmentIssue segments_by_offsets(char const* name,
                                 TensorOf<std::int64_t> const& offsets,
                                 std::int64_t capacity) {
  return {name,
          {.form = kernels::SegmentForm::offsets,
           .segments = offsets.count() - 1,
           .capacity = capacity,
           .indices = offsets.data()},
          reads(offsets)};
}

}  // namespace

Floats segment_reduce(Floats const& values,
                      TensorOf<std::int64_t> const& offsets,
                      SegmentReduction reduction,
                      SegmentSemantics semantics,
                      OffsetPolicy<AnyRuntime> const& policy,
                      std::source_location issued_at) {
  require(values.shape().rank() == 2 && offsets.shape().rank() == 1 && offsets.count() >= 1,
          "segment_reduce: values of shape ",
          values.shape(),
          ", offsets of shape ",
          offsets.shape(),
          "; expected [capacity, width] and [segments + 1]");
  return reduce_segments(segments_by_offsets("segment_reduce", offsets, values.shape()[0]),
                         values,
                         reduction,
                         semantics,
                         true,
                         issued_at,
                         policy);
}

Floats segment_reduce_gradient(Floats const& output_gradient,
                               TensorOf<std::int64_t> const& offsets,
                               SegmentForward<AnyRuntime> const& forward,
                               SegmentReduction reduction,
                               std::source_location issued_at) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1 && forward.capacity >= 0,
          "segment_reduce_gradient: offsets of shape ",
          offsets.shape(),
          " for ",
          forward.capacity,
          " value rows; expected [segments + 1] and 0 rows or more");
  return segment_gradient(segments_by_offsets("segment_reduce_gradient", offsets, forward.capacity),
                          output_gradient,
                          forward,
                          reduction,
                          issued_at);
}

TensorOf<std::int64_t> segment_offsets(AnyTensor const& sorted_ids,
                                       std::int64_t segments,
                                       std::source_location issued_at) {
  auto const layout = segments_by_ids(
      "segment_offsets", kernels::SegmentForm::sorted_ids, sorted_ids, segments, {});
  TensorOf<std::int64_t> offsets(sorted_ids.device(), {segments + 1});
  kernels::SegmentOffsetsArgs const args{layout.layout, offsets.data()};
  issue(
      "segment_offsets",
      layout.layout_reads,
      writes(offsets),
      [args](auto stream) { kernels::segment_offsets(stream, args); },
      {},
      issued_at);
  return offsets;
}

}  // namespace msstream::ops::detail
