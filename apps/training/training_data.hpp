// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/dataset.hpp"
#include "datasets/split.hpp"
#include "datasets/table.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace msstream::training {

/// The rows in memory, standardised by statistics of the training rows, and the division into
/// training and held-out rows.
struct TrainingData {
  datasets::Dataset dataset;
  datasets::Split split;
  std::vector<std::int64_t> table_rows;  ///< rows of each categorical field's table
  std::string origin;                    ///< description of the data for people
};

struct TrainingDataOptions {
  std::int64_t holdout = 5;  ///< every `holdout`-th row is for testing; 0: none
  std::int64_t buckets = 0;  ///< rows of each table; 0: from the number of keys of its field
};

/// Reads the source to its end. Throws DataError, and UsageError if no row is left to train on.
[[nodiscard]] TrainingData load_training_data(datasets::RowSource& source,
                                              std::string origin,
                                              TrainingDataOptions const& options);

}  // namespace msstream::training
