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

/// For how many rows there are buffers and captured steps, ascending, and how long each has taken
/// on the device of late: a mean in which each launch counts for an eighth.
///
/// Memory ordering: relaxed; noted and forgotten by one thread, read as a hint by any.
class Buckets {
 public:
  explicit Buckets(std::vector<std::int64_t> rows) : rows_(std::move(rows)), ns_(rows_.size()) {}

  [[nodiscard]] std::size_t count() const noexcept { return rows_.size(); }
  [[nodiscard]] std::int64_t rows(std::size_t bucket) const noexcept { return rows_[bucket]; }
  [[nodiscard]] std::int64_t largest() const noexcept { return rows_.back(); }
  [[nodiscard]] std::vector<std::int64_t> const& all() const noexcept { return rows_; }
  /// The least that holds so many rows, which are at most largest().
  [[nodiscard]] std::size_t holding(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(std::ranges::lower_bound(rows_, rows) - rows_.begin());
  }

  /// At least 1.
  [[nodiscard]] std::int64_t expected_ns(std::size_t bucket) const noexcept {
    return std::max<std::int64_t>(ns_[bucket].load(std::memory_order_relaxed), 1);
  }
  void note(std::size_t bucket, std::chrono::nanoseconds took) noexcept {
    constexpr std::int64_t kRecent = 8;
    auto const known = ns_[bucket].load(std::memory_order_relaxed);
    auto const ns = took.count();
    ns_[bucket].store(known == 0 ? ns : known + (ns - known) / kRecent, std::memory_order_relaxed);
  }
  /// What is noted next is of another model.
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
