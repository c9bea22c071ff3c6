// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/staged_batch.hpp>
#include <msstream/support/table.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msstream::support {

/// All rows in memory, parsed once.
///
/// Memory: 8 bytes a key and 4 a continuous value or label (296 bytes a census row, 264 a Criteo
/// row), and twice that for a moment while it is built. Data that does not fit belongs in a program
/// that streams blocks from the RowSource instead. Reading is thread-safe.
class Dataset {
 public:
  Dataset(Schema schema, std::vector<RowBlock> blocks);

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return all_.rows; }

  /// Throw std::out_of_range for a row that does not exist.
  [[nodiscard]] std::span<std::int64_t const> keys(std::int64_t row) const;
  [[nodiscard]] std::span<float const> continuous(std::int64_t row) const;
  [[nodiscard]] std::span<float const> labels(std::int64_t row) const;

  /// How many different keys categorical field `field` has: what its table needs to hold.
  [[nodiscard]] std::int64_t distinct_keys(std::size_t field) const;

  /// Every continuous value, [rows][continuous], to be transformed in place.
  [[nodiscard]] std::span<float> continuous_values() noexcept { return all_.continuous; }

  /// Writes the rows with these numbers into the batch. Throws std::invalid_argument when they are
  /// more than the capacity, std::out_of_range for a row that does not exist.
  void gather(std::span<std::int64_t const> rows,
              BatchLayout const& layout,
              StagedBatch& batch) const;

 private:
  [[nodiscard]] std::size_t checked(std::int64_t row) const;

  Schema schema_;
  RowBlock all_;
};

/// Reads the source to its end with `threads` threads (0: as many as the processor has). Of several
/// errors the one that comes first in the data is thrown, however the threads were scheduled.
[[nodiscard]] Dataset load_dataset(RowSource& source, std::size_t threads = 0);

}  // namespace msstream::support
