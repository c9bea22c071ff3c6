// SPDX-License-Identifier: Apache-2.0
#include "training_data.hpp"

#include "datasets/generated.hpp"

#include <fmt/core.h>

namespace train_wdl {

namespace datasets = msstream::datasets;
namespace training = msstream::training;

TrainingData load_training_data(TrainOptions const& options) {
  training::TrainingDataOptions const rows{.holdout = options.holdout, .buckets = options.buckets};
  if (!options.data.empty()) {
    return training::data_of_files({.data = options.data,
                                    .reader = {.format = options.format},
                                    .rows = rows,
                                    .copies = options.copies_of_rows(),
                                    .resume = options.resume,
                                    .quiet = options.quiet},
                                   options);
  }
  datasets::GeneratedReader reader({.rows = options.rows, .seed = options.seed});
  return training::load_training_data(
      reader, fmt::format("generated data, seed {}", options.seed), rows);
}

}  // namespace train_wdl
