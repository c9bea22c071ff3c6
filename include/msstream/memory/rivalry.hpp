// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace msstream::memory {

/// Whether one stream's threads and those of other streams take free blocks from each other, time
/// and again, since there are just enough for what is in use at once: each such block then crosses
/// from processor to processor. One stream's part of that. Thread-safe.
class Rivalry {
 public:
  /// The calling thread has found none of the stream's own.
  void note_search() noexcept {
    searcher_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  /// It has taken one of another stream.
  void note_taken_from(Rivalry const& other) noexcept {
    auto const owner = other.searcher_.load(std::memory_order_relaxed);
    if (owner != std::thread::id() && owner != std::this_thread::get_id()) {
      taken_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Whether that was another thread's, often, since the last call that said so: the stream is to
  /// have one more.
  [[nodiscard]] bool take_too_few() noexcept {
    if (taken_.load(std::memory_order_relaxed) < kOften) [[likely]] {
      return false;
    }
    taken_.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr int kOften = 4;

  std::atomic<std::thread::id> searcher_{};
  std::atomic<int> taken_{0};
};

}  // namespace msstream::memory
