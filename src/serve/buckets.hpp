// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The buckets: the numbers of rows for which there are buffers and captured steps, in ascending
/// order. Keeps a mean of the recent device times for each bucket, in which the newest launch
/// counts for an eighth.
///
/// Memory ordering: relaxed. One thread calls note() and forget(); any thread may read the times as
/// a hint.
class Buckets {
 public:
  explicit Buckets(std::vector<std::int64_t> rows) : rows_(std::move(rows)), ns_(rows_.size()) {}

  [[nodiscard]] std::size_t count() const noexcept { return rows_.size(); }
  [[nodiscard]] std::int64_t rows(std::size_t bucket) const noexcept { return rows_[bucket]; }
  [[nodiscard]] std::int64_t largest() const noexcept { return rows_.back(); }
  [[nodiscard]] std::vector<std::int64_t> const& all() const noexcept { return rows_; }
  /// Returns the index of the smallest bucket for `rows` rows, which must be at most largest().
  [[nodiscard]] std::size_t holding(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(std::ranges::lower_bound(rows_, rows) - rows_.begin());
  }

  /// Returns the mean device time of the bucket in ns; at least 1.
  [[nodiscard]] std::int64_t expected_ns(std::size_t bucket) const noexcept {
    return std::max<std::int64_t>(ns_[bucket].load(std::memory_order_relaxed), 1);
  }
  void note(std::size_t bucket, std::chrono::nanoseconds took) noexcept {
    constexpr std::int64_t kRecent = 8;
    auto const known = ns_[bucket].load(std::memory_order_relaxed);
    auto const ns = took.count();
    ns_[bucket].store(known == 0 ? ns : known + (ns - known) / kRecent, std::memory_order_relaxed);
  }
  /// Discards all times, because the next launches run another model.
  void forget() noexcept {
    for (auto& ns : ns_) {
      ns.store(0, std::memory_order_relaxed);
    }
  }

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::atomic<std::int64_t>> ns_;
};

}  // namespace msstream::serve
