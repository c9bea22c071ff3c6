// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/broadcast_plan.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// A function of two elements.
enum class BinaryFunction : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  negative_product,  ///< -(left * right): what a quotient's gradient needs for its divisor
};

/// output[i] = function(left, right) of the elements that `plan` gives i. The output may be an
/// operand of its own shape, and else overlaps none.
struct BinaryArgs {
  BinaryFunction function;
  BroadcastPlan plan;
  float const* left;
  float const* right;
  float* output;  ///< [plan.count]
};
void binary(HostStream stream, BinaryArgs const& args);
void binary(CudaStream stream, BinaryArgs const& args);

/// Of a product of two arrays of one shape: left_gradient = output_gradient * right and
/// right_gradient = output_gradient * left. Each of the two may be an input, and else they overlap
/// nothing.
struct MultiplyGradientArgs {
  float const* left;
  float const* right;
  float const* output_gradient;
  float* left_gradient;
  float* right_gradient;
  std::int64_t count;  ///< of each array
};
void multiply_gradient(HostStream stream, MultiplyGradientArgs const& args);
void multiply_gradient(CudaStream stream, MultiplyGradientArgs const& args);

}  // namespace msstream::ops::kernels
