// SPDX-License-Identifier: Apache-2.0
#include "elementwise/reduce.hpp"

#include "elementwise/broadcast_plan.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] kernels::AxisView view_along(Shape const& shape, std::size_t dimension) {
  kernels::AxisView view{1, shape[dimension], 1};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    (d < dimension ? view.outer : view.inner) *= d == dimension ? 1 : shape[d];
  }
  return view;
}

[[nodiscard]] Shape reduced_shape(Shape const& shape,
                                  std::size_t dimension,
                                  ReduceOptions options) {
  std::int64_t extents[Shape::kMaxRank] = {};
  std::size_t rank = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (d != dimension || options.keep_dimension) {
      extents[rank++] = d == dimension ? 1 : shape[d];
    }
  }
  return Shape(std::span<std::int64_t const>(extents, rank));
}

/// Reduces `input` along one dimension, which `view` describes, into a new tensor of the given
/// shape.
[[nodiscard]] Floats reduce_view(char const* operation,
                                 kernels::Reduction reduction,
                                 Floats const& input,
                                 kernels::AxisView const& view,
                                 float factor,
                                 Shape const& shape,
                                 std::source_location issued_at) {
  auto const& device = input.device();
  Floats output(device, shape);
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::reduce_axis_workspace_bytes(stream, view);
                            }));
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

[[nodiscard]] Floats extremum(char const* operation,
                              kernels::Reduction reduction,
                              Floats const& input,
                              std::int64_t axis,
                              ReduceOptions options,
                              std::source_location issued_at) {
  auto const dimension = require_axis(operation, input.shape(), axis);
  require(input.shape()[dimension] > 0,
          "{} over axis {} of a tensor of shape {}, which is empty",
          operation,
          axis,
          input.shape());
  return reduce_view(operation,
                     reduction,
                     input,
                     view_along(input.shape(), dimension),
                     1.0F,
                     reduced_shape(input.shape(), dimension, options),
                     issued_at);
}

}  // namespace

std::size_t require_axis(char const* operation, Shape const& shape, std::int64_t axis) {
  auto const rank = static_cast<std::int64_t>(shape.rank());
  require(
      -rank <= axis && axis < rank, "{}: axis {} of a tensor of shape {}", operation, axis, shape);
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

Floats sum(Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  auto const dimension = require_axis("sum", input.shape(), axis);
  return reduce_view("sum",
                     kernels::Reduction::sum,
                     input,
                     view_along(input.shape(), dimension),
                     1.0F,
                     reduced_shape(input.shape(), dimension, options),
                     issued_at);
}

Floats mean(Floats const& input,
            std::int64_t axis,
            ReduceOptions options,
            std::source_location issued_at) {
  auto const dimension = require_axis("mean", input.shape(), axis);
  auto const view = view_along(input.shape(), dimension);
  require(view.axis > 0,
          "mean over axis {} of a tensor of shape {}, which is empty",
          axis,
          input.shape());
  return reduce_view("mean",
                     kernels::Reduction::sum,
                     input,
                     view,
                     1.0F / static_cast<float>(view.axis),
                     reduced_shape(input.shape(), dimension, options),
                     issued_at);
}

Floats max(Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  return extremum("max", kernels::Reduction::max, input, axis, options, issued_at);
}

Floats min(Floats const& input,
           std::int64_t axis,
           ReduceOptions options,
           std::source_location issued_at) {
  return extremum("min", kernels::Reduction::min, input, axis, options, issued_at);
}

Floats sum_gradient(Floats const& output_gradient,
                    Shape const& shape,
                    std::int64_t axis,
                    float factor,
                    std::source_location issued_at) {
  auto const view = view_along(shape, require_axis("sum_gradient", shape, axis));
  require(output_gradient.count() == view.outputs(),
          "sum_gradient: output gradient {} for axis {} of {}",
          output_gradient.shape(),
          axis,
          shape);
  Floats gradient(output_gradient.device(), shape);
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

Floats extremum_gradient(Floats const& input,
                         Floats const& output,
                         Floats const& output_gradient,
                         std::int64_t axis,
                         std::source_location issued_at) {
  auto const& device = input.device();
  auto const view =
      view_along(input.shape(), require_axis("extremum_gradient", input.shape(), axis));
  require(output.count() == view.outputs() && output_gradient.count() == view.outputs(),
          "extremum_gradient: axis {} of {}, output {}, output gradient {}",
          axis,
          input.shape(),
          output.shape(),
          output_gradient.shape());
  Floats gradient(device, input.shape());
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::extremum_gradient_workspace_bytes(stream, view);
                            }));
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

Floats sum_to(Floats const& gradient,
              Shape const& shape,
              float factor,
              std::source_location issued_at) {
  require(kernels::broadcast_shape(shape, gradient.shape()) == gradient.shape(),
          "sum_to: {} to {}",
          gradient.shape(),
          shape);
  auto const plan = kernels::plan_sum_to(gradient.shape(), shape);
  if (plan.count == 0) {
    return (factor == 1.0F ? gradient : scale(gradient, factor, issued_at)).reshaped(shape);
  }
  auto sum = gradient;
  for (int step = 0; step < plan.count; ++step) {
    auto const& view = plan.steps[step];
    bool const last = step + 1 == plan.count;
    sum = reduce_view("sum_to",
                      kernels::Reduction::sum,
                      sum,
                      view,
                      last ? factor : 1.0F,
                      last ? shape : Shape{view.outer, view.inner},
                      issued_at);
  }
  return sum;
}

}  // namespace msstream::ops::detail
