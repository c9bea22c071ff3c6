// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/staged_batch.hpp"
#include "datasets/table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msstream::datasets {

/// A data set with all rows in memory, parsed once.
///
/// The memory is 8 bytes for each key and 4 for each continuous value or label (296 bytes for a
/// census row, 264 for a Criteo row), and twice that for a moment while it is built. If the data
/// does not fit, a program should stream blocks from the RowSource instead. Reading is thread-safe.
class Dataset {
 public:
  Dataset(Schema schema, std::vector<RowBlock> blocks);

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return all_.rows; }

  /// Return the keys, the continuous values and the labels of a row. Throw std::out_of_range for a
  /// row that does not exist.
  [[nodiscard]] std::span<std::int64_t const> keys(std::int64_t row) const;
  [[nodiscard]] std::span<float const> continuous(std::int64_t row) const;
  [[nodiscard]] std::span<float const> labels(std::int64_t row) const;

  /// Returns the number of distinct keys in categorical field `field`, for which the field's
  /// embedding table should have rows.
  [[nodiscard]] std::int64_t distinct_keys(std::size_t field) const;

  /// Returns all continuous values, [rows][continuous], to be transformed in place.
  [[nodiscard]] std::span<float> continuous_values() noexcept { return all_.continuous; }

  /// Writes the rows with the given numbers into the batch. Throws std::invalid_argument if they
  /// are more than the capacity, and std::out_of_range for a row that does not exist.
  void gather(std::span<std::int64_t const> rows,
              BatchLayout const& layout,
              StagedBatch& batch) const;

 private:
  [[nodiscard]] std::size_t checked(std::int64_t row) const;

  Schema schema_;
  RowBlock all_;
};

/// Reads the source to its end with `threads` threads (0: as many as there are processors). If
/// there are several errors, throws the one that comes first in the data, whatever the order of the
/// threads.
[[nodiscard]] Dataset load_dataset(RowSource& source, std::size_t threads = 0);

}  // namespace msstream::datasets
