// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/broadcast_plan.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The functions of two elements that binary() computes.
enum class BinaryFunction : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  negative_product,  ///< -(left * right), for the gradient of a quotient by its divisor
};

/// Computes output[i] = function(l, r), where l and r are the elements of the left and the right
/// operand that the broadcast `plan` assigns to i. The output may be an operand that has the
/// output's shape; otherwise it must not overlap the operands. Elements are widened to float32, and
/// the result is rounded once. Only sums and products have half precision; throws
/// std::invalid_argument for another function of it.
struct BinaryArgs {
  BinaryFunction function;
  BroadcastPlan plan;
  void const* left;              ///< of `dtype`
  void const* right;             ///< of `dtype`
  void* output;                  ///< [plan.count] of `dtype`
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void binary(HostStream stream, BinaryArgs const& args);
void binary(CudaStream stream, BinaryArgs const& args);

/// Computes left_gradient = output_gradient * right and right_gradient = output_gradient * left,
/// for a product of two arrays of one shape. Each gradient may be one of the inputs; otherwise it
/// must overlap no other array. All arrays are of `dtype`, and gradients are rounded once.
struct MultiplyGradientArgs {
  void const* left;
  void const* right;
  void const* output_gradient;
  void* left_gradient;
  void* right_gradient;
  std::int64_t count;            ///< elements of each array
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void multiply_gradient(HostStream stream, MultiplyGradientArgs const& args);
void multiply_gradient(CudaStream stream, MultiplyGradientArgs const& args);

}  // namespace msstream::ops::kernels
