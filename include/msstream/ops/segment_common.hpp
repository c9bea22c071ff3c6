// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/offset_policy.hpp>
#include <msstream/ops/segment_reduction.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream::ops {

/// Selects the result of a reduction for a segment without rows. It has no other effect.
enum class SegmentSemantics : std::uint8_t {
  /// As tf.math.segment_* and unsorted_segment_*: 0 for a sum, mean or sqrtn, and 1 for a product.
  /// A maximum and a minimum are 0 by offsets and by sorted ids; by unsorted ids they are the
  /// lowest and the largest float.
  tensorflow,
  /// As torch.segment_reduce, by offsets and by ids: 0 for a sum, 1 for a product, -infinity for a
  /// maximum, infinity for a minimum, and NaN, which is 0 / 0, for a mean and a sqrtn.
  torch
};

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

/// The results of a forward reduction that its gradient needs: the number of value rows, and for
/// max, min and prod also the `values` [capacity, width] and the `reduced` [segments, width].
template <Runtime R = DefaultRuntime>
struct SegmentForward {
  std::int64_t capacity;
  std::optional<Tensor<float, R>> values = {};
  std::optional<Tensor<float, R>> reduced = {};

  // NOLINTNEXTLINE(google-explicit-constructor): sums, means and sqrtn need a capacity only
  SegmentForward(std::int64_t value_rows) : capacity(value_rows) {}
  SegmentForward(Tensor<float, R> all_values, Tensor<float, R> reduced_values)
      : capacity(all_values.shape().rank() > 0 ? all_values.shape()[0] : 0),
        values(std::move(all_values)),
        reduced(std::move(reduced_values)) {}
};

namespace detail {

/// Throws std::invalid_argument if a row is wider than 2^20 elements, the most that kernels can cut
/// into parts along the second dimension of a launch.
inline void require_segment_width(char const* name, std::int64_t width) {
  constexpr std::int64_t kWidest = std::int64_t{1} << 20U;
  require(width <= kWidest, name, ": rows of ", width, " elements; expected at most ", kWidest);
}

/// The description of an operation on segments: its name, the rows of each segment, and the tensors
/// from which the kernels read the segments.
template <Runtime R, class Uses>
struct SegmentIssue {
  char const* name;
  kernels::SegmentLayout layout;
  Uses layout_reads;
};

template <Runtime R, class Uses>
[[nodiscard]] Tensor<float, R> reduce_segments(
    SegmentIssue<R, Uses> segments,
    Tensor<float, R> const& values,
    SegmentReduction reduction,
    SegmentSemantics semantics,
    bool deterministic,
    std::source_location issued_at,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {}) {
  auto const& device = values.device();
  auto const& layout = segments.layout;
  require_segment_width(segments.name, values.shape()[1]);
  Tensor<float, R> reduced(device, {layout.segments, values.shape()[1]});
  kernels::SegmentArgs args{.values = values.data(),
                            .width = values.shape()[1],
                            .layout = layout,
                            .reduction = reduction,
                            .empty_value = segment_empty_value(reduction, semantics, layout.form),
                            .deterministic = deterministic,
                            .output = reduced.data(),
                            .workspace = nullptr};
  Workspace<R> const workspace(
      device, kernels::segment_reduce_workspace_bytes(size_query<R>(*device), args));
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

template <Runtime R, class Uses>
[[nodiscard]] Tensor<float, R> segment_gradient(SegmentIssue<R, Uses> segments,
                                                Tensor<float, R> const& output_gradient,
                                                SegmentForward<R> const& forward,
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
  Tensor<float, R> gradient(device, {layout.capacity, width});
  kernels::SegmentGradientArgs args{.output_gradient = output_gradient.data(),
                                    .values = is_sum ? nullptr : forward.values->data(),
                                    .output = is_sum ? nullptr : forward.reduced->data(),
                                    .width = width,
                                    .layout = layout,
                                    .reduction = reduction,
                                    .value_gradients = gradient.data(),
                                    .workspace = nullptr};
  Workspace<R> const workspace(
      device, kernels::segment_reduce_gradient_workspace_bytes(size_query<R>(*device), args));
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

}  // namespace detail
}  // namespace msstream::ops
