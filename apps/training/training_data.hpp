// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"
#include "training/click_scan.hpp"
#include "training/training_rows.hpp"

#include <msstream/data/loader.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The rows as they are read, in memory or in their files, and what was learned from the training
/// rows.
struct TrainingData {
  TrainingRows training;  ///< those in memory until a training takes them
  TrainingRows held_out;
  std::int64_t training_rows;   ///< number of rows to train on
  data::Transforms transforms;  ///< normalise by statistics of the training rows alone
  datasets::ClickColumns columns;
  std::vector<std::int64_t> table_rows;  ///< rows of each categorical field's table
  std::vector<std::int64_t> most_keys;   ///< the most keys of each categorical field in a row
  std::string origin;                    ///< description of the data for people
  /// The rows that are shuffled among each other in training, as LoaderOptions::shuffle_rows.
  std::int64_t shuffle_rows = data::kWholeEpoch;
  std::optional<ClickCounts> counts = {};  ///< of streamed rows, for a checkpoint

  [[nodiscard]] std::int64_t rows() const noexcept { return training_rows + held_out.rows(); }
};

struct TrainingDataOptions {
  std::int64_t holdout = 5;  ///< every `holdout`-th row is for testing; 0: none
  std::int64_t buckets = 0;  ///< rows of each table; 0: from the number of keys of its field
  /// The advice in the error for rows that do not fit into memory.
  std::string advice = "ulimit -v may bound it";
};

/// Reads the reader to its end. Its columns are those of ClickColumns. Throws DataError, and
/// UsageError if no row is left to train on. Labels other than 0 and 1 are a DataError.
[[nodiscard]] TrainingData load_training_data(data::Reader& reader,
                                              std::string origin,
                                              TrainingDataOptions const& options);

struct StreamedDataOptions {
  TrainingDataOptions data;
  std::int64_t shuffle_rows = 0;  ///< TrainingData::shuffle_rows
  std::size_t threads = 0;  ///< of the pass over all rows; 0: as many as processors, at most 16
  /// The counts of an earlier run on the same files. If there are any, no pass over the rows is
  /// made, and the transforms are not fitted: they come from the checkpoint of that run.
  std::optional<ClickCounts> known = {};
  /// Called with each place that the pass reaches, one call at a time, or null.
  std::function<void(data::Reader::Position const&)> at_place = {};
};

/// Makes training data of rows that stay in their files. Unless their counts are known, reads all
/// of them once, in memory that does not grow with them, to count them and to fit the transforms.
/// The rows to train on, those that are held out, and all that is learned from them are those of
/// load_training_data(). Throws as it does, and std::invalid_argument for rows whose columns have
/// no transforms to fit; a label other than 0 and 1 is a DataError of each reader of the rows.
[[nodiscard]] TrainingData stream_training_data(OpenRows const& open,
                                                std::string origin,
                                                StreamedDataOptions const& options);

}  // namespace msstream::training
