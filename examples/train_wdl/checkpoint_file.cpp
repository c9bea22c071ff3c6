// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <charconv>
#include <string>

namespace train_wdl {

namespace datasets = msstream::datasets;

datasets::TensorMetadata checkpoint_metadata(TrainOptions const& options,
                                             TrainingData const& data,
                                             std::int64_t step) {
  std::string layers;
  for (auto const width : options.layers) {
    layers += fmt::format("{}{}", layers.empty() ? "" : ",", width);
  }
  std::string field_names;  // one per line; the names of tensors do not give their order
  for (auto const& field : data.dataset.schema().categorical) {
    field_names += fmt::format("{}{}", field_names.empty() ? "" : "\n", field);
  }
  return {{"format", "msstream train_wdl 1"},
          {"step", std::to_string(step)},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"holdout", fmt::format("{}", options.holdout)},
          {"optimizer", std::string(msstream::training::name_of(options.optimizer))},
          {"embedding_dim", std::to_string(options.embedding_dim)},
          {"layers", layers},
          {"rows", std::to_string(data.dataset.rows())},
          {"fields", std::to_string(data.dataset.schema().categorical.size())},
          {"field_names", field_names},
          {"continuous", std::to_string(data.dataset.schema().continuous.size())}};
}

std::int64_t step_of_checkpoint(datasets::SafetensorsFile const& file,
                                TrainOptions const& options,
                                TrainingData const& data) {
  auto const& saved = file.metadata();
  for (auto const& [name, mine] : checkpoint_metadata(options, data, 0)) {
    auto const found = saved.find(name);
    msstream::require(found != saved.end(),
                      "{}: not a model of train_wdl: metadata '{}' is missing",
                      options.resume,
                      name);
    msstream::require(name == "step" || found->second == mine,
                      "{}: was trained with {} = {}, this run has {}",
                      options.resume,
                      name,
                      found->second,
                      mine);
  }
  auto const& digits = saved.at("step");
  std::int64_t step = -1;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  msstream::require(error == std::errc{} && end == digits.data() + digits.size() && step >= 0,
                    "{}: metadata 'step' is '{}'; expected a number of at least 0",
                    options.resume,
                    digits);
  return step;
}

}  // namespace train_wdl
