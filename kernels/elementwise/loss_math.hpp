// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "elementwise/elementwise.hpp"
#include "elementwise/math.hpp"

#include <msstream/base/dtype.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Writes the loss and the derivative of element `i`, for inputs of type T and derivatives of type
/// Gradient.
template <class T, class Gradient>
MSSTREAM_HOST_DEVICE inline void compute_loss(ElementLossArgs const& args, std::int64_t i) {
  float const x = to_float(static_cast<T const*>(args.inputs)[i]);
  float const target = args.targets != nullptr ? args.targets[i] : 1.0F;
  ElementLoss found{};
  switch (args.kind) {
    case LossKind::bce_with_logits:
      found = weighted_bce(x, target, args.parameter);
      break;
    case LossKind::squared_error:
      found = squared_error(x, target);
      break;
    case LossKind::hinge:
      found = hinge(x, target, args.parameter);
      break;
  }
  if (args.weights != nullptr) {
    float const weight = args.weights[i / args.elements_a_weight];
    found =
        weight == 0.0F ? ElementLoss{} : ElementLoss{weight * found.loss, weight * found.gradient};
  }
  args.losses[i] = found.loss;
  if (args.gradients != nullptr) {
    static_cast<Gradient*>(args.gradients)[i] = from_float<Gradient>(found.gradient);
  }
}

}  // namespace msstream::ops::kernels
