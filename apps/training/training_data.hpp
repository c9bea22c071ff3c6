// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"
#include "datasets/stored_rows.hpp"

#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace msstream::training {

/// The rows in memory, as they were read, and what was learned from the training rows.
struct TrainingData {
  datasets::StoredRows training;  ///< until a training takes them
  datasets::StoredRows held_out;
  std::int64_t training_rows;   ///< number of rows to train on
  data::Transforms transforms;  ///< normalise by statistics of the training rows alone
  datasets::ClickColumns columns;
  std::vector<std::int64_t> table_rows;  ///< rows of each categorical field's table
  std::vector<std::int64_t> most_keys;   ///< the most keys of each categorical field in a row
  std::string origin;                    ///< description of the data for people

  [[nodiscard]] std::int64_t rows() const noexcept { return training_rows + held_out.rows(); }
};

struct TrainingDataOptions {
  std::int64_t holdout = 5;  ///< every `holdout`-th row is for testing; 0: none
  std::int64_t buckets = 0;  ///< rows of each table; 0: from the number of keys of its field
};

/// Reads the reader to its end. Its columns are those of ClickColumns. Throws DataError, and
/// UsageError if no row is left to train on. Labels other than 0 and 1 are a DataError.
[[nodiscard]] TrainingData load_training_data(data::Reader& reader,
                                              std::string origin,
                                              TrainingDataOptions const& options);

}  // namespace msstream::training
