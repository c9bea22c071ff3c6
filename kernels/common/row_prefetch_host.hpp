// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Prefetches the table rows of ids some positions before they are read, because a processor's own
/// prefetcher covers only a few rows.
template <class T, class Id>
class RowPrefetch {
 public:
  /// Prepares prefetches of the rows of the ids at the positions below `end`. If the table is so
  /// small that it stays in the cache, nothing is prefetched.
  RowPrefetch(
      T const* table, std::int64_t rows, std::int64_t width, Id const* ids, std::int64_t end)
      : table_(reinterpret_cast<std::byte const*>(table)),
        rows_(rows),
        row_bytes_(static_cast<std::uint64_t>(width) * sizeof(T)),
        ids_(ids),
        places_(std::clamp(
            kBytesAhead / std::max<std::int64_t>(1, row_bytes()), kLeastRowsAhead, kMostRowsAhead)),
        end_(rows * row_bytes() > kCachedBytes ? end - places_ : 0) {}

  /// Prefetches the row of the id that is the prefetch distance after `place`. Inlined, because GCC
  /// takes a function that only prefetches to have no effect.
  [[gnu::always_inline]] void ahead_of(std::int64_t place) const {
    if (place < end_) {
      std::int64_t const id = ids_[place + places_];
      if (is_in_range(id, rows_)) {
        auto const* const row = table_ + static_cast<std::uint64_t>(id) * row_bytes_;
        for (std::uint64_t i = 0; i < row_bytes_; i += kCacheLine) {
          __builtin_prefetch(row + i);
        }
      }
    }
  }

 private:
  static constexpr std::uint64_t kCacheLine = 64;
  static constexpr std::int64_t kBytesAhead = 4096;
  static constexpr std::int64_t kLeastRowsAhead = 2;
  static constexpr std::int64_t kMostRowsAhead = 32;
  static constexpr std::int64_t kCachedBytes = std::int64_t{4} << 20U;

  [[nodiscard]] std::int64_t row_bytes() const { return static_cast<std::int64_t>(row_bytes_); }

  std::byte const* table_;
  std::int64_t rows_;
  std::uint64_t row_bytes_;
  Id const* ids_;
  std::int64_t places_;  ///< the prefetch distance, in positions
  std::int64_t end_;
};

}  // namespace msstream::ops::kernels
