// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <string>

namespace train_wdl {

namespace {

/// The version of the file. Version 1 had other keys of strings, no transforms and no position.
constexpr char const* kFormat = "msstream train_wdl 2";

}  // namespace

ms::checkpoint::Metadata checkpoint_metadata(TrainOptions const& options,
                                             TrainingData const& data) {
  std::string layers;
  for (auto const width : options.layers) {
    layers += fmt::format("{}{}", layers.empty() ? "" : ",", width);
  }
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
          {"layers", layers},
          {"rows", std::to_string(data.rows())},
          {"fields", std::to_string(data.columns.fields())},
          {"field_names", field_names},
          {"continuous", std::to_string(data.columns.continuous)}};
}

ms::data::LoaderPosition position_in_same_run(TrainOptions const& options,
                                              TrainingData const& data) {
  ms::checkpoint::SafetensorsFile const file(options.resume);
  auto const& saved = file.metadata();
  auto const text = [&](std::string const& name) -> std::string const& {
    auto const found = saved.find(name);
    ms::require(found != saved.end(),
                "{}: not a model of train_wdl: metadata '{}' is missing",
                options.resume,
                name);
    return found->second;
  };
  ms::require(text("format") == kFormat,
              "{}: has the format '{}'; expected '{}', whose keys are others: train the model anew",
              options.resume,
              text("format"),
              kFormat);
  for (auto const& [name, mine] : checkpoint_metadata(options, data)) {
    ms::require(text(name) == mine,
                "{}: was trained with {} = {}, this run has {}",
                options.resume,
                name,
                text(name),
                mine);
  }
  return ms::data::LoaderPosition::parse(text("position"));
}

}  // namespace train_wdl
