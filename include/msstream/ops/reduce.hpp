// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/kernels/reduce.hpp>
#include <msstream/ops/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

namespace msstream::ops {

struct ReduceOptions {
  bool keep_dimension = false;  ///< keep the reduced dimension, with extent 1
};

namespace detail {

/// Returns the dimension that `axis` names. As in NumPy, a negative axis counts from the end: -1 is
/// the last dimension. Throws std::invalid_argument if there is no such dimension.
inline std::size_t require_axis(char const* operation, Shape const& shape, std::int64_t axis) {
  auto const rank = static_cast<std::int64_t>(shape.rank());
  require(
      -rank <= axis && axis < rank, operation, ": axis ", axis, " of a tensor of shape ", shape);
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

inline kernels::AxisView view_along(Shape const& shape, std::size_t dimension) {
  kernels::AxisView view{1, shape[dimension], 1};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    (d < dimension ? view.outer : view.inner) *= d == dimension ? 1 : shape[d];
  }
  return view;
}

inline Shape reduced_shape(Shape const& shape, std::size_t dimension, ReduceOptions options) {
  std::int64_t extents[Shape::kMaxRank] = {};
  std::size_t rank = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (d != dimension || options.keep_dimension) {
      extents[rank++] = d == dimension ? 1 : shape[d];
    }
  }
  return Shape(std::span<std::int64_t const>(extents, rank));
}

/// Reduces a view of `input` along its axis into a tensor of the given shape.
template <Runtime R>
[[nodiscard]] Tensor<float, R> reduce_view(char const* operation,
                                           kernels::Reduction reduction,
                                           Tensor<float, R> const& input,
                                           kernels::AxisView const& view,
                                           float factor,
                                           Shape const& shape,
                                           std::source_location issued_at) {
  auto const& device = input.device();
  Tensor<float, R> output(device, shape);
  Workspace<R> const workspace(device,
                               kernels::reduce_axis_workspace_bytes(size_query<R>(*device), view));
  kernels::ReduceAxisArgs const args{
      reduction, view, factor, input.data(), workspace.data(), output.data()};
  issue(
      operation,
      reads(input),
      workspace.with(writes(output)),
      [args](auto stream) { kernels::reduce_axis(stream, args); },
      {},
      issued_at);
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> extremum(char const* operation,
                                        kernels::Reduction reduction,
                                        Tensor<float, R> const& input,
                                        std::int64_t axis,
                                        ReduceOptions options,
                                        std::source_location issued_at) {
  auto const dimension = require_axis(operation, input.shape(), axis);
  require(input.shape()[dimension] > 0,
          operation,
          " over axis ",
          axis,
          " of a tensor of shape ",
          input.shape(),
          ", which is empty");
  return reduce_view(operation,
                     reduction,
                     input,
                     view_along(input.shape(), dimension),
                     1.0F,
                     reduced_shape(input.shape(), dimension, options),
                     issued_at);
}

}  // namespace detail

/// Returns the sum over one axis of a float32 tensor of any shape. A negative axis counts from the
/// last dimension. The sum over an empty axis is 0. Asynchronous; capture-safe; deterministic: the
/// order of the additions depends on the shape alone. Throws std::invalid_argument if there is no
/// such axis.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const dimension = detail::require_axis("sum", input.shape(), axis);
  return detail::reduce_view("sum",
                             kernels::Reduction::sum,
                             input,
                             detail::view_along(input.shape(), dimension),
                             1.0F,
                             detail::reduced_shape(input.shape(), dimension, options),
                             issued_at);
}
/// Returns the mean over one axis. Like sum(), but throws std::invalid_argument for an empty axis.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const dimension = detail::require_axis("mean", input.shape(), axis);
  auto const view = detail::view_along(input.shape(), dimension);
  require(view.axis > 0,
          "mean over axis ",
          axis,
          " of a tensor of shape ",
          input.shape(),
          ", which is empty");
  return detail::reduce_view("mean",
                             kernels::Reduction::sum,
                             input,
                             view,
                             1.0F / static_cast<float>(view.axis),
                             detail::reduced_shape(input.shape(), dimension, options),
                             issued_at);
}
/// Returns the largest element along one axis, or NaN if there is a NaN. Like mean(), throws
/// std::invalid_argument for an empty axis.
template <Runtime R>
[[nodiscard]] Tensor<float, R> max(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::extremum("max", kernels::Reduction::max, input, axis, options, issued_at);
}
/// Returns the smallest element along one axis, or NaN if there is a NaN. Like mean(), throws
/// std::invalid_argument for an empty axis.
template <Runtime R>
[[nodiscard]] Tensor<float, R> min(
    Tensor<float, R> const& input,
    std::int64_t axis,
    ReduceOptions options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::extremum("min", kernels::Reduction::min, input, axis, options, issued_at);
}

/// Returns factor * output_gradient, repeated along `axis` to `shape`: the gradient of a sum over
/// that axis with a factor of 1, or of a mean with a factor of 1 / extent. The output's gradient
/// may have or lack the reduced dimension.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum_gradient(
    Tensor<float, R> const& output_gradient,
    Shape const& shape,
    std::int64_t axis,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  auto const view = detail::view_along(shape, detail::require_axis("sum_gradient", shape, axis));
  require(output_gradient.count() == view.outputs(),
          "sum_gradient: output gradient ",
          output_gradient.shape(),
          " for axis ",
          axis,
          " of ",
          shape);
  Tensor<float, R> gradient(output_gradient.device(), shape);
  kernels::RepeatAxisArgs const args{view, factor, output_gradient.data(), gradient.data()};
  issue(
      "sum_gradient",
      reads(output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::repeat_axis(stream, args); },
      {},
      issued_at);
  return gradient;
}

/// Returns the gradient of max() or min() over `axis`, from its input, its output and the output's
/// gradient. All elements that equal the output share its gradient equally; NaN equals NaN. Two
/// launches, and one more if few long axes are counted in chunks.
template <Runtime R>
[[nodiscard]] Tensor<float, R> extremum_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::int64_t axis,
    std::source_location issued_at = std::source_location::current()) {
  auto const& device = input.device();
  auto const view = detail::view_along(
      input.shape(), detail::require_axis("extremum_gradient", input.shape(), axis));
  require(output.count() == view.outputs() && output_gradient.count() == view.outputs(),
          "extremum_gradient: axis ",
          axis,
          " of ",
          input.shape(),
          ", output ",
          output.shape(),
          ", output gradient ",
          output_gradient.shape());
  Tensor<float, R> gradient(device, input.shape());
  detail::Workspace<R> const workspace(
      device, kernels::extremum_gradient_workspace_bytes(detail::size_query<R>(*device), view));
  kernels::ExtremumGradientArgs const args{
      view, input.data(), output.data(), output_gradient.data(), workspace.data(), gradient.data()};
  issue(
      "extremum_gradient",
      reads(input, output, output_gradient),
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::extremum_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

/// Returns factor * (the sum of `gradient` over the dimensions in which a tensor of `shape` was
/// repeated to gradient's shape): the gradient of a broadcast operand. At most two reductions. If
/// nothing was repeated and factor is 1, returns the same elements without a launch. Deterministic.
/// Throws std::invalid_argument unless `shape` broadcasts to gradient's shape.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum_to(
    Tensor<float, R> const& gradient,
    Shape const& shape,
    float factor = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  require(kernels::broadcast_shape(shape, gradient.shape()) == gradient.shape(),
          "sum_to: ",
          gradient.shape(),
          " to ",
          shape);
  auto const plan = kernels::plan_sum_to(gradient.shape(), shape);
  if (plan.count == 0) {
    return (factor == 1.0F ? gradient : scale(gradient, factor, issued_at)).reshaped(shape);
  }
  auto sum = gradient;
  for (int step = 0; step < plan.count; ++step) {
    auto const& view = plan.steps[step];
    bool const last = step + 1 == plan.count;
    sum = detail::reduce_view("sum_to",
                              kernels::Reduction::sum,
                              sum,
                              view,
                              last ? factor : 1.0F,
                              last ? shape : Shape{view.outer, view.inner},
                              issued_at);
  }
  return sum;
}

}  // namespace msstream::ops
