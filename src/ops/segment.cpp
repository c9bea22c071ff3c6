// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_ids.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace msstream::ops::detail {
namespace {

auto segments_by_offsets(char const* name,
                         TensorOf<std::int64_t> const& offsets,
                         std::int64_t capacity) {
  auto uses = reads(offsets);
  return SegmentIssue<R, decltype(uses)>{name,
                                         {.form = kernels::SegmentForm::offsets,
                                          .segments = offsets.count() - 1,
                                          .capacity = capacity,
                                          .indices = offsets.data()},
                                         uses};
}

}  // namespace

Floats segment_reduce(Floats const& values,
                      TensorOf<std::int64_t> const& offsets,
                      SegmentReduction reduction,
                      SegmentSemantics semantics,
                      std::type_identity_t<OffsetPolicy<AnyRuntime>> const& policy,
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
                               std::type_identity_t<SegmentForward<AnyRuntime>> const& forward,
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

Floats segment_sum(Floats const& values,
                   TensorOf<std::int64_t> const& offsets,
                   SegmentSemantics semantics,
                   std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::sum, semantics, {}, issued_at);
}

Floats segment_mean(Floats const& values,
                    TensorOf<std::int64_t> const& offsets,
                    SegmentSemantics semantics,
                    std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::mean, semantics, {}, issued_at);
}

Floats segment_sqrtn(Floats const& values,
                     TensorOf<std::int64_t> const& offsets,
                     SegmentSemantics semantics,
                     std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::sqrtn, semantics, {}, issued_at);
}

Floats segment_max(Floats const& values,
                   TensorOf<std::int64_t> const& offsets,
                   SegmentSemantics semantics,
                   std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::max, semantics, {}, issued_at);
}

Floats segment_min(Floats const& values,
                   TensorOf<std::int64_t> const& offsets,
                   SegmentSemantics semantics,
                   std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::min, semantics, {}, issued_at);
}

Floats segment_prod(Floats const& values,
                    TensorOf<std::int64_t> const& offsets,
                    SegmentSemantics semantics,
                    std::source_location issued_at) {
  return segment_reduce(values, offsets, SegmentReduction::prod, semantics, {}, issued_at);
}

}  // namespace msstream::ops::detail
