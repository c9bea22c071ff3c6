// SPDX-License-Identifier: Apache-2.0
#include "segment/segment.hpp"

#include "ops/common/bag_view.hpp"
#include "ops/common/offset_report.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <source_location>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] kernels::SegmentForm form_of(AnySegments const& segments) {
  return !segments.order                         ? kernels::SegmentForm::offsets
         : *segments.order == SegmentIds::sorted ? kernels::SegmentForm::sorted_ids
                                                 : kernels::SegmentForm::unsorted_ids;
}

/// Converts the segments of `capacity` rows to the form in which kernels take segments.
[[nodiscard]] kernels::SegmentLayout layout_of(AnySegments const& segments, std::int64_t capacity) {
  return {.form = form_of(segments),
          .segments = segments.segments,
          .capacity = capacity,
          .indices = segments.indices.data(),
          .id_type = segments.indices.dtype(),
          .count = segments.count ? segments.count->data() : nullptr};
}

/// Returns the tensors from which kernels read the segments.
[[nodiscard]] Reads reads_of(AnySegments const& segments) {
  auto uses = reads(segments.indices);
  if (segments.count) {
    uses.add(*segments.count);
  }
  return uses;
}

[[nodiscard]] bool are_offsets(AnyTensor const& offsets) {
  return offsets.shape().rank() == 1 && offsets.count() >= 1;
}

/// Throws std::invalid_argument unless the segment ids have one dimension, the number of segments
/// is at least 0, and the row count, if given, is a scalar.
void require_ids(char const* name, AnySegments const& segments) {
  auto const& ids = segments.indices.shape();
  auto const& count = segments.count;
  require(ids.rank() == 1 && segments.segments >= 0 && (!count || count->count() == 1),
          "{}: ids of shape {} for {} segments, and a count of shape {}; expected [capacity], 0 "
          "segments or more, and a scalar",
          name,
          ids,
          segments.segments,
          count ? count->shape() : Shape{});
}

/// Returns the value to which a segment without rows is reduced.
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

/// Throws std::invalid_argument if a row is wider than 2^20 elements. Kernels divide a row among
/// blocks along the second dimension of the grid, which limits the width.
void require_segment_width(char const* name, std::int64_t width) {
  constexpr std::int64_t kWidest = std::int64_t{1} << 20U;
  require(width <= kWidest, "{}: rows of {} elements; expected at most {}", name, width, kWidest);
}

void require_values(char const* name, Shape const& values, AnySegments const& segments) {
  if (segments.order) {
    require_ids(name, segments);
    require(values.rank() == 2 && values[0] == segments.indices.count(),
            "{}: values of shape {} for {} ids; expected a row an id",
            name,
            values,
            segments.indices.count());
  } else {
    require(values.rank() == 2 && are_offsets(segments.indices),
            "{}: values of shape {}, offsets of shape {}; expected [capacity, width] and [segments "
            "+ 1]",
            name,
            values,
            segments.indices.shape());
  }
  require_segment_width(name, values[1]);
}

/// Throws std::invalid_argument unless the shapes of all tensors of a gradient fit each other.
void require_gradient(char const* name,
                      Shape const& output_gradient,
                      kernels::SegmentLayout const& layout,
                      SegmentForward<AnyRuntime> const& forward,
                      SegmentReduction reduction) {
  require(output_gradient.rank() == 2 && output_gradient[0] == layout.segments &&
              layout.capacity >= 0 && forward.capacity == layout.capacity,
          "{}: gradient of shape {} for {} segments, and {} value rows for {} places; expected "
          "[segments, width] and a row a place",
          name,
          output_gradient,
          layout.segments,
          forward.capacity,
          layout.capacity);
  auto const width = output_gradient[1];
  require_segment_width(name, width);
  if (kernels::is_sum_reduction(reduction)) {
    return;
  }
  require(forward.values && forward.reduced,
          "{}: the gradient of a maximum, minimum or product needs the values and what they were "
          "reduced to",
          name);
  require(forward.values->shape() == Shape{layout.capacity, width} &&
              forward.reduced->shape() == output_gradient,
          "{}: values of shape {} reduced to shape {}; expected {} and {}",
          name,
          forward.values->shape(),
          forward.reduced->shape(),
          Shape{layout.capacity, width},
          output_gradient);
}

}  // namespace

Floats segment_reduce(Floats const& values,
                      AnySegments const& segments,
                      SegmentReduction reduction,
                      SegmentOptions const& options,
                      std::source_location issued_at) {
  constexpr auto const* kName = "segment_reduce";
  require_values(kName, values.shape(), segments);
  auto const& device = values.device();
  auto const capacity = values.shape()[0];
  auto const width = values.shape()[1];
  Floats reduced(device, {segments.segments, width});
  kernels::SegmentArgs args{
      .values = values.data(),
      .width = width,
      .layout = layout_of(segments, capacity),
      .reduction = reduction,
      .empty_value = segment_empty_value(reduction, options.semantics, form_of(segments)),
      .deterministic = options.deterministic,
      .output = reduced.data(),
      .workspace = nullptr};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::segment_reduce_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  auto uses = reads_of(segments);
  uses.add(values);
  auto written = workspace.with(writes(reduced));
  args.layout.report = offset_report(kName, *device, segments.policy, written);
  issue(
      kName,
      uses,
      written,
      [args](auto stream) { kernels::segment_reduce(stream, args); },
      {},
      issued_at);
  return reduced;
}

Floats segment_reduce_gradient(Floats const& output_gradient,
                               AnySegments const& segments,
                               SegmentForward<AnyRuntime> const& forward,
                               SegmentReduction reduction,
                               std::source_location issued_at) {
  constexpr auto const* kName = "segment_reduce_gradient";
  if (segments.order) {
    require_ids(kName, segments);
  } else {
    require(are_offsets(segments.indices) && forward.capacity >= 0,
            "{}: offsets of shape {} for {} value rows; expected [segments + 1] and 0 rows or more",
            kName,
            segments.indices.shape(),
            forward.capacity);
  }
  auto const layout =
      layout_of(segments, segments.order ? segments.indices.count() : forward.capacity);
  require_gradient(kName, output_gradient.shape(), layout, forward, reduction);
  auto const& device = output_gradient.device();
  auto const width = output_gradient.shape()[1];
  bool const is_sum = kernels::is_sum_reduction(reduction);
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
  auto uses = reads_of(segments);
  uses.add(output_gradient);
  if (!is_sum) {
    uses.add(*forward.values);
    uses.add(*forward.reduced);
  }
  issue(
      kName,
      uses,
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::segment_reduce_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

TensorOf<std::int64_t> segment_offsets(AnyTensor const& sorted_ids,
                                       std::int64_t segments,
                                       std::source_location issued_at) {
  constexpr auto const* kName = "segment_offsets";
  AnySegments const by_ids{sorted_ids, segments, SegmentIds::sorted, {}, {}};
  require_ids(kName, by_ids);
  TensorOf<std::int64_t> offsets(sorted_ids.device(), {segments + 1});
  kernels::SegmentOffsetsArgs const args{layout_of(by_ids, sorted_ids.count()), offsets.data()};
  issue(
      kName,
      reads_of(by_ids),
      writes(offsets),
      [args](auto stream) { kernels::segment_offsets(stream, args); },
      {},
      issued_at);
  return offsets;
}

}  // namespace msstream::ops::detail
