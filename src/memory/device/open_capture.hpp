// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/pools/block_pool.hpp"
#include "stream/stream_group.hpp"

#include <memory>
#include <source_location>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

/// What the allocator, tensors and operations need of a capture that the calling thread is inside.
/// Capture implements it, on a higher step of the rooms. A thread may be inside captures on several
/// devices at once.
class OpenCapture {
 public:
  OpenCapture(OpenCapture const&) = delete;
  OpenCapture& operator=(OpenCapture const&) = delete;

  /// Returns the calling thread's capture on the device of `context`. Null if there is none.
  [[nodiscard]] static OpenCapture* current(StreamContext const& context) noexcept {
    OpenCapture* capture = innermost_;
    while (capture != nullptr && &capture->device_ != &context) {
      capture = capture->outer_;
    }
    return capture;
  }
  /// Like current(), but throws std::logic_error if the thread is not capturing.
  [[nodiscard]] static OpenCapture& of_this_thread(StreamContext const& context) {
    auto* const capture = current(context);
    if (capture == nullptr) {
      throw std::logic_error(
          "a group of a capture is used by a thread that does not capture, or after the capture");
    }
    return *capture;
  }

  /// Returns the group that captured work for `group` goes to. A twin is returned as its own twin.
  [[nodiscard]] virtual StreamGroup& twin_of(StreamGroup& group) = 0;
  /// Returns the pool from which a captured stream gets memory.
  [[nodiscard]] virtual memory::BlockPool& pool_of(StreamSlot const& stream) const noexcept = 0;
  /// Returns the record for a captured use of the block, or null for an immutable block, whose
  /// reads are not noted. Keeps the block alive, unless the capture has made it. The record lives
  /// until the capture ends.
  [[nodiscard]] virtual AccessRecord* record_of(memory::Block& block, AccessMode mode) = 0;
  /// Returns the group, not its twin, that last wrote the block in the capture. Null if none did.
  [[nodiscard]] virtual StreamGroup* writer_of(memory::Block& block) const = 0;
  /// Returns whether captured work uses the block, so that the host cannot wait for it.
  [[nodiscard]] virtual bool uses(memory::Block& block) const = 0;
  /// Notes that replays will copy from pinned memory that a captured operation reads.
  virtual void copies_from_host(memory::Block& block) = 0;
  /// Notes the place of a TensorHolder::hold() on captured streams. The holder owns the place until
  /// it releases the tensor, which must be before the capture ends.
  virtual void add_hold(std::weak_ptr<std::source_location const> place) = 0;

 protected:
  explicit OpenCapture(StreamContext const& device) noexcept : device_(device) {}
  ~OpenCapture() = default;

  /// Makes this the calling thread's innermost capture, until leave().
  void enter() noexcept { outer_ = std::exchange(innermost_, this); }
  void leave() noexcept { innermost_ = outer_; }

 private:
  /// The calling thread's innermost capture, or null.
  static inline constinit thread_local OpenCapture* innermost_ = nullptr;

  StreamContext const& device_;
  OpenCapture* outer_ = nullptr;
};

}  // namespace msstream::detail
