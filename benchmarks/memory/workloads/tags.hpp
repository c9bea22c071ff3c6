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

/// Which words of a block are marked: at most 1,024, spread over all of it, so that whoever gets
/// any part of it too early overwrites some.
struct TagPlaces {
  std::size_t words;
  std::size_t stride;  ///< in words

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
/// Of each block another one, and with many bits that differ.
[[nodiscard]] constexpr std::uint64_t tag_of(std::uint64_t block) {
  return (block + 1) * 0xD1B54A32D192ED03U;
}

/// Work on a stream that keeps it busy for a while, and then writes a block's tags, or counts those
/// that are no longer there.
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
  /// When all checks are done.
  [[nodiscard]] std::uint64_t wrong() const { return *wrong_; }

 private:
  /// The stream's worker sleeps: a device's kernels take no time of the host's processors.
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

/// For the current device.
template <>
class Tags<ms::CudaStream> {
 public:
  explicit Tags(std::chrono::nanoseconds busy);

  void write(ms::CudaStream stream, Tagged const& block) const;
  void check(ms::CudaStream stream, Tagged const& block) const;
  [[nodiscard]] std::uint64_t wrong() const;

 private:
  std::chrono::nanoseconds busy_;
  std::shared_ptr<unsigned long long> wrong_;  ///< on the device
};

#endif

}  // namespace benchmarks::workloads
