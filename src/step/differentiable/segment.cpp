// SPDX-License-Identifier: Apache-2.0
#include "segment/segment.hpp"

#include "step/recorded.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/differentiable/segment.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns the data of a forward segment reduction that its backward pass uses. For sums, means and
/// sqrtn, that is only the number of rows, so that no tensor is kept until then.
[[nodiscard]] SegmentForward<AnyRuntime> segment_forward(Floats const& values,
                                                         Floats const& reduced,
                                                         SegmentReduction reduction) {
  return kernels::is_sum_reduction(reduction) ? SegmentForward<AnyRuntime>(values.shape()[0])
                                              : SegmentForward<AnyRuntime>(values, reduced);
}

}  // namespace

Floats segment_reduce(AnyTape& tape,
                      Floats const& values,
                      AnySegments const& segments,
                      SegmentReduction reduction,
                      SegmentOptions const& options,
                      std::source_location issued_at) {
  auto const reduced = segment_reduce(values, segments, reduction, options, issued_at);
  auto const forward = segment_forward(values, reduced, reduction);
  return recorded(
      tape,
      "segment_reduce",
      values,
      reduced,
      [=](auto const& gradient) {
        return segment_reduce_gradient(gradient, segments, forward, reduction, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
