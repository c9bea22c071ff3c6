// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/broadcast_plan.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

enum class Reduction : std::uint8_t { sum, max, min };

/// output[o, i] = factor * (the reduction over a of input[o, a, i]), float32. NaN wins over every
/// number. Over nothing a sum is 0, a maximum -infinity, a minimum infinity. The order of the
/// additions depends on `view` alone.
struct ReduceAxisArgs {
  Reduction reduction;
  AxisView view;
  float factor;
  float const* input;  ///< [outer, axis, inner]
  void* workspace;     ///< reduce_axis_workspace_bytes(stream, view) bytes, aligned to 4
  float* output;       ///< [outer, inner]
};
/// Asks no device. 0 where one launch suffices.
std::size_t reduce_axis_workspace_bytes(HostStream stream, AxisView const& view);
std::size_t reduce_axis_workspace_bytes(CudaStream stream, AxisView const& view);
void reduce_axis(HostStream stream, ReduceAxisArgs const& args);
void reduce_axis(CudaStream stream, ReduceAxisArgs const& args);

/// output[o, a, i] = factor * values[o, i]: the gradient of a sum.
struct RepeatAxisArgs {
  AxisView view;
  float factor;
  float const* values;  ///< [outer, inner]
  float* output;        ///< [outer, axis, inner]
};
void repeat_axis(HostStream stream, RepeatAxisArgs const& args);
void repeat_axis(CudaStream stream, RepeatAxisArgs const& args);

/// The gradient of a maximum or minimum: input_gradient[o, a, i] = output_gradient[o, i] / (how
/// many of input[o, :, i] equal output[o, i]) for those that do, 0 for the others. NaN equals NaN
/// here.
struct ExtremumGradientArgs {
  AxisView view;
  float const* input;            ///< [outer, axis, inner]
  float const* output;           ///< [outer, inner]
  float const* output_gradient;  ///< [outer, inner]
  void* workspace;        ///< extremum_gradient_workspace_bytes(stream, view) bytes, aligned to 4
  float* input_gradient;  ///< [outer, axis, inner]
};
/// Asks no device.
std::size_t extremum_gradient_workspace_bytes(HostStream stream, AxisView const& view);
std::size_t extremum_gradient_workspace_bytes(CudaStream stream, AxisView const& view);
void extremum_gradient(HostStream stream, ExtremumGradientArgs const& args);
void extremum_gradient(CudaStream stream, ExtremumGradientArgs const& args);

}  // namespace msstream::ops::kernels
