// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include "cli/precision_option.hpp"
#include "training/same_run.hpp"

#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <string>

namespace train_wdl {

namespace {

/// The version of the file. Version 1 had other keys of strings, no transforms and no position;
/// version 2 had no precision.
constexpr char const* kFormat = "msstream train_wdl 3";

}  // namespace

ms::checkpoint::Metadata checkpoint_metadata(TrainOptions const& options,
                                             TrainingData const& data) {
  std::string field_names;  // one per line; the names of tensors do not give their order
  for (auto const& field : data.columns.categorical) {
    field_names += fmt::format("{}{}", field_names.empty() ? "" : "\n", field);
  }
  return {{"format", kFormat},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"holdout", fmt::format("{}", options.holdout)},
          {"optimizer", std::string(ms::ops::name_of(options.optimizer))},
          {"embedding_dim", std::to_string(options.embedding_dim)},
          {"precision", std::string(ms::cli::name_of(options.precision))},
          {"layers", ms::training::text_of(options.layers)},
          {"rows", std::to_string(data.rows())},
          {"fields", std::to_string(data.columns.fields())},
          {"field_names", field_names},
          {"continuous", std::to_string(data.columns.continuous)}};
}

ms::data::LoaderPosition position_in_same_run(TrainOptions const& options,
                                              TrainingData const& data) {
  return ms::training::position_in_same_run(
      options.resume, "train_wdl", checkpoint_metadata(options, data));
}

}  // namespace train_wdl
