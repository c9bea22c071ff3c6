// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>

namespace msstream::memory {

/// Counts, for one stream, how often threads take free blocks from each other's streams. If there
/// are just enough blocks for the memory in use, threads do so again and again, and each block
/// moves from one processor's cache to another's. Thread-safe.
class Rivalry {
 public:
  /// Notes that the calling thread searches the free blocks of all streams for a block for this
  /// stream.
  void note_search() noexcept {
    searcher_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  /// Notes that the calling thread has taken a block of the stream of `other` for this stream.
  void note_taken_from(Rivalry& other) noexcept {
    auto const owner = other.searcher_.load(std::memory_order_relaxed);
    if (owner != std::thread::id() && owner != std::this_thread::get_id()) {
      taken_.fetch_add(1, std::memory_order_relaxed);
      other.lost_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Returns whether the stream should get one more block: since the last call that returned true,
  /// it has often taken blocks of other threads' streams, and as often lost blocks to other
  /// threads.
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

  std::atomic<std::thread::id> searcher_{};  ///< the thread that last searched
  std::atomic<int> taken_{0};
  std::atomic<int> lost_{0};
};

/// Counts the bytes of a pool that were allocated for streams although these could have used free
/// blocks of other streams. Thread-safe.
class PartForRivals {
 public:
  /// Returns the most bytes to allocate for streams that could use free blocks of other streams
  /// instead: 64 MiB, or 1/512 of the memory limit if that is less.
  [[nodiscard]] static constexpr std::size_t most(std::size_t limit_bytes) noexcept {
    return std::min(limit_bytes / kPart, kMostBytes);
  }
  /// Adds `bytes` to the count. Returns false, and adds nothing, if the count would exceed most().
  /// Concurrent calls may exceed it slightly.
  [[nodiscard]] bool take(std::size_t bytes, std::size_t limit_bytes) noexcept {
    if (taken_bytes_.load(std::memory_order_relaxed) + bytes > most(limit_bytes)) {
      return false;
    }
    taken_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  /// Subtracts `bytes` that take() has counted, because its caller found no memory.
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
