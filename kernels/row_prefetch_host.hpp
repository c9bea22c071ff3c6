// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// Brings the rows of ids into the cache some places before they are read; a processor by itself
/// looks ahead over no more than a few rows.
template <class T, class Id, class Columns>
class RowPrefetch {
 public:
  /// For places below `end`.
  RowPrefetch(T const* table, Columns columns, Id const* ids, std::int64_t end)
      : table_(table),
        columns_(columns),
        ids_(ids),
        end_(end),
        places_(std::clamp(kBytesAhead / row_bytes(), kLeastRowsAhead, kMostRowsAhead)) {}

  /// An id may be out of range: the processor ignores addresses that lead nowhere.
  void ahead_of(std::int64_t place) const {
    if (place + places_ < end_) {
      auto const offset = static_cast<std::uintptr_t>(ids_[place + places_]) *
                          static_cast<std::uintptr_t>(row_bytes());
      auto const row = reinterpret_cast<std::uintptr_t>(table_) + offset;
      for (std::int64_t i = 0; i < row_bytes(); i += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<void const*>(row + static_cast<std::uintptr_t>(i)));
      }
    }
  }

 private:
  static constexpr std::int64_t kCacheLine = 64;
  static constexpr std::int64_t kBytesAhead = 4096;
  static constexpr std::int64_t kLeastRowsAhead = 2;
  static constexpr std::int64_t kMostRowsAhead = 32;

  [[nodiscard]] std::int64_t row_bytes() const {
    return columns_.count() * static_cast<std::int64_t>(sizeof(T));
  }

  T const* table_;
  Columns columns_;
  Id const* ids_;
  std::int64_t end_;
  std::int64_t places_;
};

}  // namespace msstream::ops::kernels
