// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace benchmarks::workloads {

namespace ms = msstream;

/// The words of a block that are marked: at most 1,024, spread over the whole block. If any part of
/// the block is given out too early, some of the marks are overwritten.
struct TagPlaces {
  std::size_t words;
  std::size_t stride;  ///< distance between marked words, in words

  [[nodiscard]] static TagPlaces of(std::size_t bytes) {
    std::size_t const all = bytes / sizeof(std::uint64_t);
    std::size_t const words = std::min<std::size_t>(all, 1024);
    return {words, words == 0 ? 1 : all / words};
  }
};

struct Tagged {
  std::uint64_t* memory;
  TagPlaces places;
  std::uint64_t tag;
};
/// Returns the tag that marks block number `block`. Tags of different blocks differ in many bits.
[[nodiscard]] constexpr std::uint64_t tag_of(std::uint64_t block) {
  return (block + 1) * 0xD1B54A32D192ED03U;
}

/// Keeps a stream busy for a while, and then writes the tags of a block, or counts those that have
/// changed.
template <class StreamRef>
class Tags;

template <>
class Tags<ms::HostStream> {
 public:
  explicit Tags(std::chrono::nanoseconds busy) : busy_(busy) {}

  void write(ms::HostStream stream, Tagged const& block) const {
    stream.run([block, busy = busy_] {
      keep_busy(busy);
      for (std::size_t i = 0; i < block.places.words; ++i) {
        block.memory[i * block.places.stride] = block.tag ^ i;
      }
    });
  }
  void check(ms::HostStream stream, Tagged const& block) const {
    stream.run([block, busy = busy_, wrong = wrong_] {
      keep_busy(busy);
      for (std::size_t i = 0; i < block.places.words; ++i) {
        *wrong += block.memory[i * block.places.stride] == (block.tag ^ i) ? 0 : 1;
      }
    });
  }
  /// Returns the number of tags that were found changed. To be called when all checks are complete.
  [[nodiscard]] std::uint64_t wrong() const { return *wrong_; }

 private:
  /// Lets the stream's worker thread sleep, because a device's kernels take no time of the host's
  /// processors.
  static void keep_busy(std::chrono::nanoseconds busy) {
    if (busy.count() != 0) {
      std::this_thread::sleep_for(busy);
    }
  }

  std::chrono::nanoseconds busy_;
  std::shared_ptr<std::atomic<std::uint64_t>> wrong_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

#if MSSTREAM_CUDA

/// Writes and checks tags of blocks on the current CUDA device.
template <>
class Tags<ms::CudaStream> {
 public:
  explicit Tags(std::chrono::nanoseconds busy);

  void write(ms::CudaStream stream, Tagged const& block) const;
  void check(ms::CudaStream stream, Tagged const& block) const;
  [[nodiscard]] std::uint64_t wrong() const;

 private:
  std::chrono::nanoseconds busy_;
  std::shared_ptr<unsigned long long> wrong_;  ///< number of wrong tags, in device memory
};

#endif

}  // namespace benchmarks::workloads
