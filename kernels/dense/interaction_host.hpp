// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/interaction.hpp"

namespace msstream::ops::kernels {

/// Computes dot_interaction() on the host before it returns.
void compute_dot_interaction(InteractionArgs const& args);
/// Computes dot_interaction_gradient() on the host before it returns.
void compute_dot_interaction_gradient(InteractionGradientArgs const& args);

}  // namespace msstream::ops::kernels
