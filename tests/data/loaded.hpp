// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/loader.hpp>
#include <msstream/data/reader.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::data {

/// Rows whose contents follow from their number, in chunks of a size that varies. Row r has the id
/// r, the floats r and r + 0.5, and r modulo 4 values in a jagged column. Calls `before` with the
/// number of the first row of each chunk.
class CountingReader final : public Reader {
 public:
  explicit CountingReader(std::int64_t rows,
                          std::int64_t chunk_rows = 7,
                          std::function<void(std::int64_t)> before = {})
      : rows_(rows), chunk_rows_(chunk_rows), before_(std::move(before)) {}

  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    if (before_) {
      before_(row_);
    }
    if (row_ == rows_) {
      return false;
    }
    auto const end = std::min(rows_, row_ + 1 + (row_ * 5) % chunk_rows_);
    for (; row_ < end; ++row_) {
      auto const value = static_cast<float>(row_);
      chunk.floats("pair").insert(chunk.floats("pair").end(), {value, value + 0.5F});
      chunk.ints("id").push_back(row_);
      chunk.ints("bag").insert(
          chunk.ints("bag").end(), static_cast<std::size_t>(row_ % 4), 10 * row_);
      chunk.offsets("bag").push_back(static_cast<std::int64_t>(chunk.ints("bag").size()));
    }
    return true;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }
  [[nodiscard]] std::int64_t chunk_rows() const { return chunk_rows_; }

 private:
  Schema schema_{{{"pair", ColumnType::float32, 2},
                  {"id", ColumnType::int64},
                  {"bag", ColumnType::int64, kJagged}}};
  std::int64_t rows_;
  std::int64_t chunk_rows_;
  std::function<void(std::int64_t)> before_;
  std::int64_t row_ = 0;
};

/// The contents of a batch, which tests compare.
struct SeenBatch {
  std::int64_t index;
  std::int64_t epoch;
  std::int64_t first_sample;
  std::vector<std::int64_t> ids;
  friend bool operator==(SeenBatch const&, SeenBatch const&) = default;
};

/// Checks that the other columns of a batch belong to its ids, and returns what identifies it.
inline SeenBatch seen(Batch const& batch) {
  auto const ids = batch.ints("id");
  auto const pairs = batch.floats("pair");
  auto const bags = batch.ints("bag");
  auto const offsets = batch.offsets("bag");
  bool good = offsets[0] == 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows()); ++row) {
    auto const id = ids[row];
    auto const value = static_cast<float>(id);
    good = good && pairs[2 * row] == value && pairs[2 * row + 1] == value + 0.5F &&
           offsets[row + 1] - offsets[row] == id % 4;
    for (auto i = offsets[row]; i < offsets[row + 1]; ++i) {
      good = good && bags[static_cast<std::size_t>(i)] == 10 * id;
    }
  }
  if (!good) {
    throw std::logic_error("the columns of a batch have values of different rows");
  }
  return {batch.index(),
          batch.epoch(),
          batch.first_sample(),
          {ids.begin(), ids.begin() + batch.rows()}};
}

inline std::vector<SeenBatch> all_of(Loader& loader) {
  std::vector<SeenBatch> batches;
  while (auto const batch = loader.next()) {
    batches.push_back(seen(*batch));
  }
  return batches;
}

inline std::vector<SeenBatch> all_of(std::int64_t rows, LoaderOptions const& options) {
  CountingReader reader(rows);
  Loader loader(reader, options);
  return all_of(loader);
}

}  // namespace msstream::data
