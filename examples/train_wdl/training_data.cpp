// SPDX-License-Identifier: Apache-2.0
#include "training_data.hpp"

#include "datasets/generated.hpp"

#include <fmt/core.h>

#include <memory>

namespace train_wdl {

namespace datasets = msstream::datasets;
namespace training = msstream::training;

namespace {

std::unique_ptr<ms::data::Reader> open_reader(TrainOptions const& options) {
  if (options.data.empty()) {
    return std::make_unique<datasets::GeneratedReader>(
        datasets::GeneratedOptions{.rows = options.rows, .seed = options.seed});
  }
  return datasets::open_data(options.data, {.format = options.format});
}

}  // namespace

TrainingData load_training_data(TrainOptions const& options) {
  auto const reader = open_reader(options);
  return training::load_training_data(
      *reader,
      options.data.empty() ? fmt::format("generated data, seed {}", options.seed) : options.data,
      {.holdout = options.holdout, .buckets = options.buckets});
}

}  // namespace train_wdl
