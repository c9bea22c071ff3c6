// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/memory/raw_allocator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

constexpr std::size_t kBlockBytes = std::size_t{2} << 20U;  ///< size of a block that is never split

template <class R>
[[nodiscard]] Device<R> device_of_blocks(std::size_t blocks, typename R::Options runtime = {}) {
  return Device<R>({.runtime = runtime,
                    .memory = {.limit_bytes = blocks * kBlockBytes,
                               .max_growth_bytes = kBlockBytes,
                               .wait_for_frees = std::chrono::milliseconds(0)}});
}

/// A program that uses msstream as another library does: it has its own streams, which are
/// destroyed with the test, memory by pointer, and a gate that may hold the streams.
template <class R>
class RawProgram {
 public:
  using Native = typename R::native_stream;

  explicit RawProgram(std::size_t blocks, typename R::Options options = {})
      : device(device_of_blocks<R>(blocks, options)),
        runtime(device.runtime()),
        memory(device),
        pinned_(static_cast<std::uint8_t*>(runtime.allocate_pinned(kBlockBytes))) {}
  RawProgram(RawProgram const&) = delete;
  RawProgram& operator=(RawProgram const&) = delete;
  ~RawProgram() {
    gate.open();
    for (auto const stream : streams_) {
      runtime.synchronize_stream(stream);
      runtime.destroy_stream(stream);
    }
    runtime.free_pinned(pinned_, kBlockBytes);
  }

  [[nodiscard]] Native stream() {
    return streams_.emplace_back(runtime.create_stream(StreamPriority::normal));
  }
  void destroy(Native stream) {
    streams_.erase(std::find(streams_.begin(), streams_.end(), stream));
    runtime.destroy_stream(stream);
  }
  /// Blocks the stream: work that is enqueued on it from now on runs once the gate is open.
  void hold(Native stream) { gate.block(runtime, stream); }

  [[nodiscard]] void* allocate(Native stream) { return memory.allocate(kBlockBytes, 256, stream); }
  void write(void* to, std::uint8_t value, Native stream) {
    runtime.fill(to, value, kBlockBytes, stream);
  }
  /// Enqueues on the stream a wait for the test's gate, and then a write of the value 1.
  void write_behind_gate(void* to, Native stream) {
    hold(stream);
    write(to, 1, stream);
  }
  /// Returns memory that was allocated on the stream `owner` and deallocated on the stream `user`,
  /// whose queue is [wait for the test's gate, write 1].
  [[nodiscard]] void* returned_in_flight(Native owner, Native user) {
    auto* const block = allocate(owner);
    write_behind_gate(block, user);
    memory.deallocate(block, user);
    return block;
  }
  [[nodiscard]] void* returned_in_flight(Native stream) {
    return returned_in_flight(stream, stream);
  }
  /// Copies the block to the host on the stream, and returns the value of all bytes, or -1 if the
  /// bytes differ.
  [[nodiscard]] int read(void const* from, Native stream) {
    runtime.copy(pinned_, from, kBlockBytes, CopyKind::d2h, stream);
    runtime.synchronize_stream(stream);
    bool const all_same =
        std::all_of(pinned_, pinned_ + kBlockBytes, [&](auto byte) { return byte == pinned_[0]; });
    return all_same ? pinned_[0] : -1;
  }
  /// Writes 2 to the block on the stream, opens the gate, and expects that the value stays: the
  /// write must follow all work that the gate holds.
  void expect_overwrites(void* block, Native stream) {
    write(block, 2, stream);
    gate.open();
    for (auto const one : streams_) {
      runtime.synchronize_stream(one);
    }
    EXPECT_EQ(read(block, stream), 2);
  }
  [[nodiscard]] std::uint64_t waits() const { return device.wait_counts().issued; }

  Gate gate;
  Device<R> device;
  R& runtime;
  RawAllocator<R> memory;

 private:
  std::uint8_t* pinned_;
  std::vector<Native> streams_;
};

}  // namespace msstream::testing
