// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include <charconv>
#include <string>

namespace train_wdl {

namespace data = msstream::data;
using msstream::text;

data::TensorMetadata checkpoint_metadata(TrainOptions const& options,
                                         TrainingData const& data,
                                         std::int64_t step) {
  std::string layers;
  for (auto const width : options.layers) {
    layers += text(layers.empty() ? "" : ",", width);
  }
  std::string field_names;  // one per line, since tensor names do not give the order
  for (auto const& field : data.dataset.schema().categorical) {
    field_names += text(field_names.empty() ? "" : "\n", field);
  }
  return {{"format", "msstream train_wdl 1"},
          {"step", text(step)},
          {"batch", text(options.batch)},
          {"seed", text(options.seed)},
          {"holdout", text(options.holdout)},
          {"optimizer", std::string(msstream::training::name_of(options.optimizer))},
          {"embedding_dim", text(options.embedding_dim)},
          {"layers", layers},
          {"rows", text(data.dataset.rows())},
          {"fields", text(data.dataset.schema().categorical.size())},
          {"field_names", field_names},
          {"continuous", text(data.dataset.schema().continuous.size())}};
}

std::int64_t step_of_checkpoint(data::SafetensorsFile const& file,
                                TrainOptions const& options,
                                TrainingData const& data) {
  auto const& saved = file.metadata();
  for (auto const& [name, mine] : checkpoint_metadata(options, data, 0)) {
    auto const found = saved.find(name);
    msstream::require(found != saved.end(),
                      options.resume,
                      ": not a model of train_wdl: metadata '",
                      name,
                      "' is missing");
    msstream::require(name == "step" || found->second == mine,
                      options.resume,
                      ": was trained with ",
                      name,
                      " = ",
                      found->second,
                      ", this run has ",
                      mine);
  }
  auto const& digits = saved.at("step");
  std::int64_t step = -1;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  msstream::require(error == std::errc{} && end == digits.data() + digits.size() && step >= 0,
                    options.resume,
                    ": metadata 'step' is '",
                    digits,
                    "'; expected a number of at least 0");
  return step;
}

}  // namespace train_wdl
