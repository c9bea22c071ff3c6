// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// Reads all rows of a reader in several threads, and calls a function with the chunks in their
/// order, one at a time. A thread takes the next task, parses its rows, and waits for its turn.
class OrderedRows {
 public:
  /// The chunks keep the strings of the columns `words`, and together have the first `max_rows`
  /// rows of the reader; with 0, all.
  OrderedRows(Reader& reader,
              std::vector<std::size_t> words,
              std::function<void(Chunk&)> add,
              std::int64_t max_rows = 0)
      : reader_(reader),
        schema_(std::make_shared<Schema const>(reader.schema())),
        words_(std::move(words)),
        add_(std::move(add)),
        max_rows_(max_rows) {}

  /// Reads to the end, or to the first error.
  void read(int threads);
  /// Throws the error of the first chunk that has one.
  void rethrow() const;
  /// Returns the number of rows that have been given.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }

 private:
  void work();
  [[nodiscard]] bool is_complete() const noexcept { return max_rows_ > 0 && rows_ == max_rows_; }

  Reader& reader_;
  std::shared_ptr<Schema const> schema_;
  std::vector<std::size_t> words_;
  std::function<void(Chunk&)> add_;
  std::int64_t max_rows_;
  std::mutex reading_;  ///< guards the reader and `chunks_`
  std::int64_t chunks_ = 0;
  std::mutex mutex_;  ///< guards all below
  std::condition_variable changed_;
  std::int64_t turn_ = 0;
  std::int64_t rows_ = 0;
  bool over_ = false;
  std::exception_ptr failure_;
};

}  // namespace msstream::data::detail
