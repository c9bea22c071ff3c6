// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument unless add() can sum `inputs` into `output` in several launches: a
/// launch must not overwrite an input that a later launch reads.
void require_addable(std::span<float const* const> inputs, float const* output);

}  // namespace msstream::ops::kernels
