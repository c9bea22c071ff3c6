// SPDX-License-Identifier: Apache-2.0
#include "ops/segment_common.hpp"
#include "segment/segment.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/segment.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

Floats reduce_by_ids(SegmentIssue const& segments,
                     Floats const& values,
                     SegmentReduction reduction,
                     SegmentOptions<AnyRuntime> const& options,
                     std::source_location issued_at) {
  require(values.shape().rank() == 2 && values.shape()[0] == segments.layout.capacity,
          segments.name,
          ": values of shape ",
          values.shape(),
          " for ",
          segments.layout.capacity,
          " ids; expected a row an id");
  return reduce_segments(
      segments, values, reduction, options.semantics, options.deterministic, issued_at);
}

std::int64_t segments_of(Floats const& reduced) {
  return reduced.shape().rank() > 0 ? reduced.shape()[0] : 0;
}

}  // namespace

Floats sorted_segment_reduce(Floats const& values,
                             AnyTensor const& ids,
                             std::int64_t segments,
                             SegmentReduction reduction,
                             SegmentOptions<AnyRuntime> const& options,
                             std::source_location issued_at) {
  return reduce_by_ids(
      segments_by_ids(
          "sorted_segment_reduce", kernels::SegmentForm::sorted_ids, ids, segments, options.count),
      values,
      reduction,
      options,
      issued_at);
}

Floats unsorted_segment_reduce(Floats const& values,
                               AnyTensor const& ids,
                               std::int64_t segments,
                               SegmentReduction reduction,
                               SegmentOptions<AnyRuntime> const& options,
                               std::source_location issued_at) {
  return reduce_by_ids(segments_by_ids("unsorted_segment_reduce",
                                       kernels::SegmentForm::unsorted_ids,
                                       ids,
                                       segments,
                                       options.count),
                       values,
                       reduction,
                       options,
                       issued_at);
}

Floats sorted_segment_reduce_gradient(Floats const& output_gradient,
                                      AnyTensor const& ids,
                                      SegmentForward<AnyRuntime> const& forward,
                                      SegmentReduction reduction,
                                      SegmentOptions<AnyRuntime> const& options,
                                      std::source_location issued_at) {
  return segment_gradient(segments_by_ids("sorted_segment_reduce_gradient",
                                          kernels::SegmentForm::sorted_ids,
                                          ids,
                                          segments_of(output_gradient),
                                          options.count),
                          output_gradient,
                          forward,
                          reduction,
                          issued_at);
}

Floats unsorted_segment_reduce_gradient(Floats const& output_gradient,
                                        AnyTensor const& ids,
                                        SegmentForward<AnyRuntime> const& forward,
                                        SegmentReduction reduction,
                                        SegmentOptions<AnyRuntime> const& options,
                                        std::source_location issued_at) {
  return segment_gradient(segments_by_ids("unsorted_segment_reduce_gradient",
                                          kernels::SegmentForm::unsorted_ids,
                                          ids,
                                          segments_of(output_gradient),
                                          options.count),
                          output_gradient,
                          forward,
                          reduction,
                          issued_at);
}

}  // namespace msstream::ops::detail
