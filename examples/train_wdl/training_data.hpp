// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_options.hpp"

#include <msstream/support/dataset.hpp>
#include <msstream/support/split.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace train_wdl {

/// The rows in memory, standardised on the training rows, and which of them are held out.
struct TrainingData {
  msstream::support::Dataset dataset;
  msstream::support::Split split;
  std::vector<std::int64_t> table_rows;  ///< one a categorical field
  std::string origin;                    ///< for people
};

/// Reads or generates. Throws support::DataError, and std::invalid_argument when no row is left to
/// train on.
[[nodiscard]] TrainingData load_training_data(TrainOptions const& options);

}  // namespace train_wdl
