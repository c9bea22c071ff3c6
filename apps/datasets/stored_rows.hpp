// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/reader.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::datasets {

/// Rows in memory, in the chunks in which a reader gave them.
class StoredRows {
 public:
  explicit StoredRows(data::Schema schema) : schema_(std::move(schema)) {}
  /// Throws std::invalid_argument for a chunk of another schema.
  StoredRows(data::Schema schema, std::vector<data::Chunk> chunks);

  [[nodiscard]] data::Schema const& schema() const noexcept { return schema_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::vector<data::Chunk> const& chunks() const noexcept { return chunks_; }
  void add(data::Chunk chunk);

  /// Returns a reader that copies the rows, which must stay here as long as it is used.
  [[nodiscard]] std::unique_ptr<data::Reader> reader() const;
  /// Returns a reader that gives the rows away, and leaves none here. So the rows that a Loader
  /// keeps are in memory once. They can be read once: seek() throws std::logic_error after the
  /// first chunk, as it would be asked for in an epoch that is longer than a window.
  [[nodiscard]] std::unique_ptr<data::Reader> take();

 private:
  data::Schema schema_;
  std::vector<data::Chunk> chunks_;
  std::int64_t rows_ = 0;
};

/// Reads a reader to its end with `threads` threads (0: as many as there are processors). If there
/// are several errors, throws the one that comes first in the data, whatever the order of the
/// threads. The chunks do not depend on it either.
[[nodiscard]] StoredRows load_rows(data::Reader& reader, std::size_t threads = 0);

/// The rows to train on, and the rows to evaluate on.
struct DividedRows {
  StoredRows training;
  StoredRows held_out;
};

/// Holds out every `holdout`-th row, as split_rows() does. Rows to train on stay in their memory.
/// Throws std::invalid_argument for 1 and below 0.
[[nodiscard]] DividedRows divide(StoredRows rows, std::int64_t holdout);

}  // namespace msstream::datasets
