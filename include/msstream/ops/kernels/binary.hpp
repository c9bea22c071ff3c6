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

}  // namespace msstream::ops::kernels
