// SPDX-License-Identifier: Apache-2.0
#include "segment/segment.hpp"

#include "step/recorded.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/differentiable/segment.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns what the backward needs of the forward. For sums, means and sqrtn that is only the
/// number of rows, so that no tensor is kept until the backward.
[[nodiscard]] SegmentForward<AnyRuntime> segment_forward(Floats const& values,
                                                         Floats const& reduced,
                                                         SegmentReduction reduction) {
  return kernels::is_sum_reduction(reduction) ? SegmentForward<AnyRuntime>(values.shape()[0])
                                              : SegmentForward<AnyRuntime>(values, reduced);
}

}  // namespace

Floats segment_reduce(AnyTape& tape,
                      Floats const& values,
                      TensorOf<std::int64_t> const& offsets,
                      SegmentReduction reduction,
                      SegmentSemantics semantics,
                      OffsetPolicy<AnyRuntime> const& policy,
                      std::source_location issued_at) {
  auto const reduced = segment_reduce(values, offsets, reduction, semantics, policy, issued_at);
  auto const forward = segment_forward(values, reduced, reduction);
  return recorded(
      tape,
      "segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return segment_reduce_gradient(gradient, offsets, forward, reduction, issued_at);
      },
      issued_at);
}

Floats sorted_segment_reduce(AnyTape& tape,
                             Floats const& values,
                             AnyTensor const& sorted_ids,
                             std::int64_t segments,
                             SegmentReduction reduction,
                             SegmentOptions<AnyRuntime> const& options,
                             std::source_location issued_at) {
  auto const reduced =
      sorted_segment_reduce(values, sorted_ids, segments, reduction, options, issued_at);
  auto const forward = segment_forward(values, reduced, reduction);
  return recorded(
      tape,
      "sorted_segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return sorted_segment_reduce_gradient(
            gradient, sorted_ids, forward, reduction, options, issued_at);
      },
      issued_at);
}

Floats unsorted_segment_reduce(AnyTape& tape,
                               Floats const& values,
                               AnyTensor const& ids,
                               std::int64_t segments,
                               SegmentReduction reduction,
                               SegmentOptions<AnyRuntime> const& options,
                               std::source_location issued_at) {
  auto const reduced =
      unsorted_segment_reduce(values, ids, segments, reduction, options, issued_at);
  auto const forward = segment_forward(values, reduced, reduction);
  return recorded(
      tape,
      "unsorted_segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return unsorted_segment_reduce_gradient(
            gradient, ids, forward, reduction, options, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
