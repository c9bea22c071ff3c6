// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Brings the rows of ids into the cache some places before they are read; a processor by itself
/// looks ahead over no more than a few rows.
template <class T, class Id>
class RowPrefetch {
 public:
  /// For places below `end`; for none where the table is so small that it stays in the cache.
  RowPrefetch(
      T const* table, std::int64_t rows, std::int64_t width, Id const* ids, std::int64_t end)
      : table_(reinterpret_cast<std::byte const*>(table)),
        rows_(rows),
        row_bytes_(width * static_cast<std::int64_t>(sizeof(T))),
        ids_(ids),
        places_(std::clamp(
            kBytesAhead / std::max<std::int64_t>(1, row_bytes_), kLeastRowsAhead, kMostRowsAhead)),
        end_(rows * row_bytes_ > kCachedBytes ? end - places_ : 0) {}

  /// Inlined, because to GCC a function that does nothing but this has no effect.
  [[gnu::always_inline]] void ahead_of(std::int64_t place) const {
    if (place >= end_) {
      return;
    }
    auto const id = static_cast<std::int64_t>(ids_[place + places_]);
    if (id < 0 || id >= rows_) {
      return;
    }
    auto const* row = table_ + id * row_bytes_;
    for (std::int64_t i = 0; i < row_bytes_; i += kCacheLine) {
      __builtin_prefetch(row + i);
    }
  }

 private:
  static constexpr std::int64_t kCacheLine = 64;
  static constexpr std::int64_t kBytesAhead = 4096;
  static constexpr std::int64_t kLeastRowsAhead = 2;
  static constexpr std::int64_t kMostRowsAhead = 32;
  static constexpr std::int64_t kCachedBytes = std::int64_t{4} << 20U;

  std::byte const* table_;
  std::int64_t rows_;
  std::int64_t row_bytes_;
  Id const* ids_;
  std::int64_t places_;  ///< ahead
  std::int64_t end_;
};

}  // namespace msstream::ops::kernels
