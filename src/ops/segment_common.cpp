// SPDX-License-Identifier: Apache-2.0
#include "ops/segment_common.hpp"

#include "ops/common/offset_report.hpp"
#include "ops/common/workspace.hpp"
#include "segment/segment.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns the result of a reduction for a segment without rows.
[[nodiscard]] constexpr float segment_empty_value(SegmentReduction reduction,
                                                  SegmentSemantics semantics,
                                                  kernels::SegmentForm form) {
  using Limits = std::numeric_limits<float>;
  bool const is_torch = semantics == SegmentSemantics::torch;
  bool const is_unsorted = form == kernels::SegmentForm::unsorted_ids;
  switch (reduction) {
    case SegmentReduction::sum:
      return 0.0F;
    case SegmentReduction::mean:
    case SegmentReduction::sqrtn:
      return is_torch ? Limits::quiet_NaN() : 0.0F;
    case SegmentReduction::max:
      return is_torch ? -Limits::infinity() : is_unsorted ? Limits::lowest() : 0.0F;
    case SegmentReduction::min:
      return is_torch ? Limits::infinity() : is_unsorted ? Limits::max() : 0.0F;
    case SegmentReduction::prod:
      return 1.0F;
  }
  return 0.0F;
}

/// Throws std::invalid_argument if a row is wider than 2^20 elements, the most that kernels can cut
/// into parts along the second dimension of a launch.
void require_segment_width(char const* name, std::int64_t width) {
  constexpr std::int64_t kWidest = std::int64_t{1} << 20U;
  require(width <= kWidest, name, ": rows of ", width, " elements; expected at most ", kWidest);
}

}  // namespace

SegmentIssue segments_by_ids(char const* name,
                             kernels::SegmentForm form,
                             AnyTensor const& ids,
                             std::int64_t segments,
                             std::optional<TensorOf<std::int64_t>> const& count) {
  require(ids.shape().rank() == 1 && segments >= 0 && (!count || count->count() == 1),
          name,
          ": ids of shape ",
          ids.shape(),
          " for ",
          segments,
          " segments, and a count of shape ",
          count ? count->shape() : Shape{},
          "; expected [capacity], 0 segments or more, and a scalar");
  auto uses = reads(ids);
  if (count) {
    uses.add(*count);
  }
  return {name,
          {.form = form,
           .segments = segments,
           .capacity = ids.count(),
           .indices = ids.data(),
           .id_type = ids.dtype(),
           .count = count ? count->data() : nullptr},
          uses};
}

Floats reduce_segments(SegmentIssue segments,
                       Floats const& values,
                       SegmentReduction reduction,
                       SegmentSemantics semantics,
                       bool deterministic,
                       std::source_location issued_at,
                       OffsetPolicy<AnyRuntime> const& policy) {
  auto const& device = values.device();
  auto const& layout = segments.layout;
  require_segment_width(segments.name, values.shape()[1]);
  Floats reduced(device, {layout.segments, values.shape()[1]});
  kernels::SegmentArgs args{.values = values.data(),
                            .width = values.shape()[1],
                            .layout = layout,
                            .reduction = reduction,
                            .empty_value = segment_empty_value(reduction, semantics, layout.form),
                            .deterministic = deterministic,
                            .output = reduced.data(),
                            .workspace = nullptr};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::segment_reduce_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  segments.layout_reads.add(values);
  auto written = workspace.with(writes(reduced));
  args.layout.report = offset_report(segments.name, *device, policy, written);
  issue(
      segments.name,
      segments.layout_reads,
      written,
      [args](auto stream) { kernels::segment_reduce(stream, args); },
      {},
      issued_at);
  return reduced;
}

Floats segment_gradient(SegmentIssue segments,
                        Floats const& output_gradient,
                        SegmentForward<AnyRuntime> const& forward,
                        SegmentReduction reduction,
                        std::source_location issued_at) {
  auto const& layout = segments.layout;
  require(output_gradient.shape().rank() == 2 && output_gradient.shape()[0] == layout.segments &&
              layout.capacity >= 0 && forward.capacity == layout.capacity,
          segments.name,
          ": gradient of shape ",
          output_gradient.shape(),
          " for ",
          layout.segments,
          " segments, and ",
          forward.capacity,
          " value rows for ",
          layout.capacity,
          " places; expected [segments, width] and a row a place");
  auto const width = output_gradient.shape()[1];
  require_segment_width(segments.name, width);
  bool const is_sum = kernels::is_sum_reduction(reduction);
  require(is_sum || (forward.values && forward.reduced),
          segments.name,
          ": the gradient of a maximum, minimum or product needs the values and what they were "
          "reduced to");
  require(is_sum || (forward.values->shape() == Shape{layout.capacity, width} &&
                     forward.reduced->shape() == output_gradient.shape()),
          segments.name,
          ": values of shape ",
          is_sum ? Shape{} : forward.values->shape(),
          " reduced to shape ",
          is_sum ? Shape{} : forward.reduced->shape(),
          "; expected ",
          Shape{layout.capacity, width},
          " and ",
          output_gradient.shape());
  auto const& device = output_gradient.device();
  Floats gradient(device, {layout.capacity, width});
  kernels::SegmentGradientArgs args{.output_gradient = output_gradient.data(),
                                    .values = is_sum ? nullptr : forward.values->data(),
                                    .output = is_sum ? nullptr : forward.reduced->data(),
                                    .width = width,
                                    .layout = layout,
                                    .reduction = reduction,
                                    .value_gradients = gradient.data(),
                                    .workspace = nullptr};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::segment_reduce_gradient_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  segments.layout_reads.add(output_gradient);
  if (!is_sum) {
    segments.layout_reads.add(*forward.values);
    segments.layout_reads.add(*forward.reduced);
  }
  issue(
      segments.name,
      segments.layout_reads,
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::segment_reduce_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
