// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace msstream::data::detail {

/// The bad rows of a reader, of which it may leave out a number. Chunks carry those among their
/// rows, with the log, to the user of the reader, who adds them in the order of the chunks; so
/// which row is one too many does not depend on the threads. Thread-safe.
class BadRowLog {
 public:
  /// Adds the bad rows of a chunk to their log, and takes them from the chunk. Throws DataError for
  /// the first row that is one too many.
  static void add_from(Chunk& chunk);

  /// Accepts up to `most` rows. Throws std::invalid_argument for less than 0.
  explicit BadRowLog(std::int64_t most);
  /// Returns whether the reader may leave out rows.
  [[nodiscard]] bool accepts_rows() const noexcept { return most_ > 0; }
  [[nodiscard]] BadRows rows() const;

 private:
  void add(BadRow bad);

  std::int64_t most_;
  mutable std::mutex mutex_;  ///< guards all below
  std::set<std::pair<std::int64_t, std::int64_t>> places_;
  BadRows rows_;
};

}  // namespace msstream::data::detail
