// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>
#include <msstream/step/optimizer.hpp>

namespace msstream::detail {

/// Throws std::invalid_argument for options of an optimizer that are out of range.
inline void require_options(OptimizerOptions const& options) {
  require(options.clip_norm > 0.0F,
          "Optimizer: clip_norm of {}; expected a number in (0, infinity]",
          options.clip_norm);
  require(options.micro_batches >= 1,
          "Optimizer: micro_batches of {}; expected 1 or more",
          options.micro_batches);
  require(options.table_rounding <= OptimizerOptions::Rounding::stochastic,
          "Optimizer: no rounding of tables has the number {}",
          static_cast<int>(options.table_rounding));
  require(options.copies <= Precision::fp16,
          "Optimizer: no precision of copies has the number {}",
          static_cast<int>(options.copies));
}

}  // namespace msstream::detail
