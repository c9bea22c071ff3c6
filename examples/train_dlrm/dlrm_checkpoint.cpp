// SPDX-License-Identifier: Apache-2.0
#include "dlrm_checkpoint.hpp"

#include "cli/precision_option.hpp"

#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <string>

namespace train_dlrm {

ms::checkpoint::Metadata checkpoint_metadata(DlrmOptions const& options,
                                             ms::training::TrainingData const& data) {
  auto const& shape = options.shape;
  return {{"format", "msstream train_dlrm 1"},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"holdout", std::to_string(options.holdout)},
          {"optimizer", std::string(ms::ops::name_of(options.optimizer))},
          {"rows", std::to_string(data.rows())},
          {"interaction", shape.interaction == Interaction::cross ? "cross" : "dot"},
          {"precision",
           std::string(ms::cli::name_of(shape.precision)) +
               (shape.fp8_products ? " with fp8 products" : "")},
          {"half_tables",
           !shape.half_tables ? "false"
           : options.table_rounding == ms::OptimizerOptions::Rounding::stochastic
               ? "true, rounded stochastically"
               : "true"},
          {"max_rows", std::to_string(shape.max_rows)},
          {"max_hotness", std::to_string(shape.max_hotness)},
          {"dimension", std::to_string(shape.dimension)},
          {"bottom", ms::training::text_of(shape.bottom)},
          {"top", ms::training::text_of(shape.top)},
          {"cross_layers", std::to_string(shape.cross_layers)},
          {"cross_rank", std::to_string(shape.cross_rank)}};
}

}  // namespace train_dlrm
