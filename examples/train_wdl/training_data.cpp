// SPDX-License-Identifier: Apache-2.0
#include "training_data.hpp"

#include "data/generated.hpp"

#include <fmt/core.h>

#include <memory>

namespace train_wdl {

namespace data = msstream::data;
namespace training = msstream::training;

namespace {

std::unique_ptr<data::RowSource> open_source(TrainOptions const& options) {
  if (options.data.empty()) {
    return std::make_unique<data::GeneratedSource>(
        data::GeneratedOptions{.rows = options.rows, .seed = options.seed});
  }
  return data::open_data(options.data, {.format = options.format});
}

}  // namespace

TrainingData load_training_data(TrainOptions const& options) {
  auto const source = open_source(options);
  return training::load_training_data(
      *source,
      options.data.empty() ? fmt::format("generated data, seed {}", options.seed) : options.data,
      {.holdout = options.holdout, .buckets = options.buckets});
}

}  // namespace train_wdl
