// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>

namespace msstream::memory {

/// Whether threads take free blocks from each other's streams, time and again, since there are just
/// enough for what is in use at once: each such block then crosses from processor to processor. One
/// stream's part of that. Thread-safe.
class Rivalry {
 public:
  /// The calling thread looks for a block for the stream among those of all.
  void note_search() noexcept {
    searcher_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  /// It has taken one of another stream.
  void note_taken_from(Rivalry& other) noexcept {
    auto const owner = other.searcher_.load(std::memory_order_relaxed);
    if (owner != std::thread::id() && owner != std::this_thread::get_id()) {
      taken_.fetch_add(1, std::memory_order_relaxed);
      other.lost_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Whether the stream has often taken blocks of other threads', and as often lost some to them,
  /// since the last call that said so: it is to have one more.
  [[nodiscard]] bool take_too_few() noexcept {
    if (taken_.load(std::memory_order_relaxed) < kOften ||
        lost_.load(std::memory_order_relaxed) < kOften) {
      return false;
    }
    taken_.store(0, std::memory_order_relaxed);
    lost_.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr int kOften = 4;

  std::atomic<std::thread::id> searcher_{};  ///< of late
  std::atomic<int> taken_{0};
  std::atomic<int> lost_{0};
};

/// How much of a pool has gone to streams that could do with the blocks of others. Thread-safe.
class PartForRivals {
 public:
  /// How much may: 64 MiB, or a 512th of the limit, whatever is in use.
  [[nodiscard]] static constexpr std::size_t most(std::size_t limit_bytes) noexcept {
    return std::min(limit_bytes / kPart, kMostBytes);
  }
  /// False: with that it would be more, or a little more where threads meet.
  [[nodiscard]] bool take(std::size_t bytes, std::size_t limit_bytes) noexcept {
    if (taken_bytes_.load(std::memory_order_relaxed) + bytes > most(limit_bytes)) {
      return false;
    }
    taken_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  /// Undoes a take() whose caller then found no memory.
  void give_back(std::size_t bytes) noexcept {
    auto taken = taken_bytes_.load(std::memory_order_relaxed);
    while (!taken_bytes_.compare_exchange_weak(
        taken, taken - std::min(taken, bytes), std::memory_order_relaxed)) {
    }
  }
  void give_back_all() noexcept { taken_bytes_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kPart = 512;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  std::atomic<std::size_t> taken_bytes_{0};
};

}  // namespace msstream::memory
