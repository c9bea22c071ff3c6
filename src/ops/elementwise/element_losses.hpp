// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/elementwise.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

/// A loss of inputs and targets, element by element, and the operation that error messages name.
struct ElementLosses {
  char const* operation;
  kernels::LossKind kind;
  AnyTensor const& inputs;  ///< float32, float16 or bfloat16
  Floats const* targets;    ///< null if all are 1
  LossOptions<AnyRuntime> const& options = {};
  float margin = 0.0F;  ///< for LossKind::hinge
};

/// Computes the losses and their gradients, which are float32 or have the type of the inputs. One
/// launch. Throws std::invalid_argument for shapes that do not match and numbers out of range.
[[nodiscard]] AnyLosses element_losses(ElementLosses const& of,
                                       DType gradient_dtype,
                                       std::source_location issued_at);

}  // namespace msstream::ops::detail
