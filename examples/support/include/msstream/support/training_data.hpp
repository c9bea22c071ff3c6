// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/dataset.hpp>
#include <msstream/support/split.hpp>
#include <msstream/support/table.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace msstream::support {

/// The rows in memory, standardised on the training rows, and which of them are held out.
struct TrainingData {
  Dataset dataset;
  Split split;
  std::vector<std::int64_t> table_rows;  ///< one a categorical field
  std::string origin;                    ///< for people
};

struct TrainingDataOptions {
  std::int64_t holdout = 5;  ///< every how-manieth row is for testing; 0: none
  std::int64_t buckets = 0;  ///< rows of each table; 0: by how many keys its field has
};

/// Reads the source to its end. Throws DataError, and UsageError when no row is left to
/// train on.
[[nodiscard]] TrainingData load_training_data(RowSource& source,
                                              std::string origin,
                                              TrainingDataOptions const& options);

}  // namespace msstream::support
