// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace msstream::data::detail {

/// The bad rows of a reader, of which it may leave out a number. Chunks carry those among their
/// rows to the user of the reader, who adds them in the order of the chunks; so which row is one
/// too many does not depend on the threads. Thread-safe.
class BadRowLog {
 public:
  /// Lets a reader leave out up to `most` rows, if that is not 0.
  static void attach(Reader& reader, std::int64_t most);
  /// Adds the bad rows of a chunk of the reader, and takes them from the chunk. Throws DataError
  /// for the first row that is one too many.
  static void add(Reader& reader, Chunk& chunk);

  explicit BadRowLog(std::int64_t most) : most_(most) {}
  [[nodiscard]] BadRows rows() const;

 private:
  void add(BadRow bad);

  std::int64_t most_;
  mutable std::mutex mutex_;  ///< guards all below
  std::set<std::pair<std::int64_t, std::int64_t>> places_;
  BadRows rows_;
};

}  // namespace msstream::data::detail
