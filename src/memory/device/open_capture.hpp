// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/pools/block_pool.hpp"
#include "stream/stream_group.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

namespace msstream::detail {

class OpenCapture;

/// Something outside a graph that changes with its replays. All functions are called on the thread
/// that captures or replays.
class ReplayFollower {
 public:
  ReplayFollower() = default;
  ReplayFollower(ReplayFollower const&) = delete;
  ReplayFollower& operator=(ReplayFollower const&) = delete;
  virtual ~ReplayFollower() = default;

  /// Called when all work has been captured.
  virtual void end_of_capture(OpenCapture& capture) = 0;
  /// Called before each replay, outside of captures. The replay does not begin if the function
  /// throws, and follows work that is issued here on the graph's memory. `issued_at` is the place
  /// of the replay.
  virtual void before_replay(std::source_location issued_at) = 0;
  /// Called when a replay has been issued.
  virtual void after_replay() noexcept = 0;
};

/// The interface of a capture that the calling thread is inside, for the allocator, tensors and
/// operations. Capture implements it, in a higher layer. A thread may be inside captures on several
/// devices at once.
class OpenCapture {
 public:
  OpenCapture(OpenCapture const&) = delete;
  OpenCapture& operator=(OpenCapture const&) = delete;

  /// Returns the calling thread's capture on the device of `context`; null if there is none.
  [[nodiscard]] static OpenCapture* current(StreamContext const& context) noexcept {
    OpenCapture* capture = innermost_;
    while (capture != nullptr && &capture->device_ != &context) {
      capture = capture->outer_;
    }
    return capture;
  }
  /// Returns the calling thread's capture on the device of `context`. Throws std::logic_error if
  /// there is none.
  [[nodiscard]] static OpenCapture& of_this_thread(StreamContext const& context) {
    auto* const capture = current(context);
    if (capture == nullptr) {
      throw std::logic_error(
          "a group of a capture is used by a thread that does not capture, or after the capture");
    }
    return *capture;
  }

  /// Returns a number that no other capture of the process has, from 1.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Returns the twin of `group`, to which captured work for the group goes. If `group` is a twin
  /// itself, returns `group`.
  [[nodiscard]] virtual StreamGroup& twin_of(StreamGroup& group) = 0;
  /// Returns the pool from which a captured stream gets memory.
  [[nodiscard]] virtual memory::BlockPool& pool_of(StreamSlot const& stream) const noexcept = 0;
  /// Returns the access record for a captured use of the block, or null for an immutable block,
  /// whose reads are not noted. Keeps the block alive until the capture ends, unless the block was
  /// made in the capture. The record lives until the capture ends.
  [[nodiscard]] virtual AccessRecord* record_of(memory::Block& block, AccessMode mode) = 0;
  /// Returns the group, not its twin, that last wrote the block in the capture; null if none did.
  [[nodiscard]] virtual StreamGroup* writer_of(memory::Block& block) const = 0;
  /// Returns whether captured work uses the block, so that the host cannot wait for it.
  [[nodiscard]] virtual bool uses(memory::Block& block) const = 0;
  /// Notes that a captured operation reads pinned memory, from which each replay will copy.
  virtual void copies_from_host(memory::Block& block) = 0;
  /// Notes something that must be finished before the capture ends, such as a TensorHolder::hold()
  /// on captured streams. `message` says so if it is not: its owner drops it when it is finished.
  virtual void add_unfinished(std::weak_ptr<std::string const> message) = 0;
  /// Calls `check` before each replay, which does not begin if it throws.
  virtual void before_replay(std::function<void()> check) = 0;
  /// Calls the functions of `follower` at the end of the capture and at each replay.
  virtual void follow(std::shared_ptr<ReplayFollower> follower) = 0;
  /// Keeps an object until the graph is destroyed, or the capture without a graph. It is destroyed
  /// after the graph, on the thread that destroys the graph.
  virtual void keep_with_graph(std::shared_ptr<void const> object) = 0;

 protected:
  explicit OpenCapture(StreamContext const& device) noexcept : device_(device) {}
  ~OpenCapture() = default;

  /// Makes the object the calling thread's innermost capture, until leave() is called.
  void enter() noexcept { outer_ = std::exchange(innermost_, this); }
  void leave() noexcept { innermost_ = outer_; }

 private:
  /// The calling thread's innermost capture, or null.
  static inline constinit thread_local OpenCapture* innermost_ = nullptr;

  [[nodiscard]] static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> numbers{0};
    return numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  StreamContext const& device_;
  std::uint64_t const number_ = next_number();
  OpenCapture* outer_ = nullptr;
};

}  // namespace msstream::detail
