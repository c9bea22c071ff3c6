// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <string>

namespace train_wdl {

ms::checkpoint::Metadata checkpoint_metadata(TrainOptions const& options,
                                             TrainingData const& data) {
  std::string layers;
  for (auto const width : options.layers) {
    layers += fmt::format("{}{}", layers.empty() ? "" : ",", width);
  }
  std::string field_names;  // one per line; the names of tensors do not give their order
  for (auto const& field : data.dataset.schema().categorical) {
    field_names += fmt::format("{}{}", field_names.empty() ? "" : "\n", field);
  }
  return {{"format", "msstream train_wdl 1"},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"holdout", fmt::format("{}", options.holdout)},
          {"optimizer", std::string(ms::ops::name_of(options.optimizer))},
          {"embedding_dim", std::to_string(options.embedding_dim)},
          {"layers", layers},
          {"rows", std::to_string(data.dataset.rows())},
          {"fields", std::to_string(data.dataset.schema().categorical.size())},
          {"field_names", field_names},
          {"continuous", std::to_string(data.dataset.schema().continuous.size())}};
}

void require_same_run(TrainOptions const& options, TrainingData const& data) {
  ms::checkpoint::SafetensorsFile const file(options.resume);
  auto const& saved = file.metadata();
  for (auto const& [name, mine] : checkpoint_metadata(options, data)) {
    auto const found = saved.find(name);
    ms::require(found != saved.end(),
                "{}: not a model of train_wdl: metadata '{}' is missing",
                options.resume,
                name);
    ms::require(found->second == mine,
                "{}: was trained with {} = {}, this run has {}",
                options.resume,
                name,
                found->second,
                mine);
  }
}

}  // namespace train_wdl
