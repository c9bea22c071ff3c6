// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/broadcast_plan.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

enum class Reduction : std::uint8_t { sum, max, min };

/// Computes the reduction of an array over its middle axis: output[o, i] = factor * (the reduction
/// over a of input[o, a, i]), float32. The result is NaN if any element is NaN. Over an empty axis
/// a sum is 0, a maximum -infinity, and a minimum infinity. The order of the additions depends on
/// `view` alone.
struct ReduceAxisArgs {
  Reduction reduction;
  AxisView view;
  float factor;
  float const* input;  ///< [outer, axis, inner]
  void* workspace;     ///< reduce_axis_workspace_bytes(stream, view) bytes, 4-byte aligned
  float* output;       ///< [outer, inner]
};
/// Returns the bytes of workspace that reduce_axis() needs, without a query of the device. Returns
/// 0 where one launch suffices.
std::size_t reduce_axis_workspace_bytes(HostStream stream, AxisView const& view);
std::size_t reduce_axis_workspace_bytes(CudaStream stream, AxisView const& view);
void reduce_axis(HostStream stream, ReduceAxisArgs const& args);
void reduce_axis(CudaStream stream, ReduceAxisArgs const& args);

/// Sets output[o, a, i] = factor * values[o, i], which is the gradient of a sum over the middle
/// axis.
struct RepeatAxisArgs {
  AxisView view;
  float factor;
  float const* values;  ///< [outer, inner]
  float* output;        ///< [outer, axis, inner]
};
void repeat_axis(HostStream stream, RepeatAxisArgs const& args);
void repeat_axis(CudaStream stream, RepeatAxisArgs const& args);

/// Computes the gradient of a maximum or minimum over the middle axis: input_gradient[o, a, i] =
/// output_gradient[o, i] / (the number of elements of input[o, :, i] that equal output[o, i]) for
/// elements that equal output[o, i], and 0 for all others. NaN counts as equal to NaN.
struct ExtremumGradientArgs {
  AxisView view;
  float const* input;            ///< [outer, axis, inner]
  float const* output;           ///< [outer, inner]
  float const* output_gradient;  ///< [outer, inner]
  void* workspace;        ///< extremum_gradient_workspace_bytes(stream, view) bytes, 4-byte aligned
  float* input_gradient;  ///< [outer, axis, inner]
};
/// Returns the bytes of workspace that extremum_gradient() needs, without a query of the device.
std::size_t extremum_gradient_workspace_bytes(HostStream stream, AxisView const& view);
std::size_t extremum_gradient_workspace_bytes(CudaStream stream, AxisView const& view);
void extremum_gradient(HostStream stream, ExtremumGradientArgs const& args);
void extremum_gradient(CudaStream stream, ExtremumGradientArgs const& args);

}  // namespace msstream::ops::kernels
