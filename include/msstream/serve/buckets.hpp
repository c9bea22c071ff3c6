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
/// on the device of late: a mean in which each launch counts for an eighth, and about the least.
///
/// Memory ordering: relaxed; noted and forgotten by one thread, read as a hint by any.
class Buckets {
 public:
  explicit Buckets(std::vector<std::int64_t> rows)
      : rows_(std::move(rows)), ns_(rows_.size()), least_ns_(rows_.size()) {}

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
  /// From when on, after a launch has begun, it is worth asking whether it is over: asking keeps
  /// those waiting who launch. For the thread that notes.
  [[nodiscard]] std::chrono::nanoseconds ask_after(std::size_t bucket) const noexcept {
    constexpr std::int64_t kMostNs = 1'000'000;
    return std::chrono::nanoseconds(std::min(least_ns_[bucket] / 8 * 7, kMostNs));
  }
  /// `at_once`: it was over when it was first asked, and so perhaps long before.
  void note(std::size_t bucket, std::chrono::nanoseconds took, bool at_once = false) noexcept {
    auto& least = least_ns_[bucket];
    if (at_once) {
      least = std::min<std::int64_t>(least, took.count() / 2);
    } else {
      note_least(least, took.count());
    }
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
    std::ranges::fill(least_ns_, 0);
  }

 private:
  /// Down at once, up slowly.
  static void note_least(std::int64_t& least, std::int64_t ns) noexcept {
    constexpr std::int64_t kSlowly = 64;
    least = least == 0 || ns < least ? ns : least + (ns - least) / kSlowly;
  }

  std::vector<std::int64_t> rows_;
  std::vector<std::atomic<std::int64_t>> ns_;
  std::vector<std::int64_t> least_ns_;
};

}  // namespace msstream::serve
