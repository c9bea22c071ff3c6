// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tried.hpp"

#include <msstream/runtime/runtime.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::testing {

/// A few bytes of device memory that streams write, and pinned memory to which streams copy the
/// bytes.
template <Runtime R>
class Cell {
 public:
  static constexpr std::size_t kBytes = 64;

  explicit Cell(std::shared_ptr<R> runtime)
      : runtime_(std::move(runtime)),
        device_(runtime_->allocate_device(kBytes)),
        pinned_(static_cast<std::uint8_t*>(runtime_->allocate_pinned(kBytes))) {
    std::memset(pinned_, 0, kBytes);
    auto const stream = runtime_->create_stream(StreamPriority::normal);
    write(0, stream);
    runtime_->synchronize_stream(stream);
    runtime_->destroy_stream(stream);
  }
  Cell(Cell const&) = delete;
  Cell& operator=(Cell const&) = delete;
  ~Cell() {
    runtime_->free_device(device_, kBytes);
    runtime_->free_pinned(pinned_, kBytes);
  }

  /// Enqueues a fill of the device bytes with `value`.
  void write(std::uint8_t value, typename R::native_stream stream) {
    runtime_->fill(device_, value, kBytes, stream);
  }
  /// Enqueues a copy of the device bytes to pinned memory.
  void read(typename R::native_stream stream) {
    runtime_->copy(pinned_, device_, kBytes, CopyKind::d2h, stream);
  }
  /// Returns the value that the last complete read() has copied, or -1 if its bytes differ.
  [[nodiscard]] int seen() const {
    for (std::size_t i = 1; i < kBytes; ++i) {
      if (pinned_[i] != pinned_[0]) {
        return -1;
      }
    }
    return pinned_[0];
  }
  [[nodiscard]] void* device() const noexcept { return device_; }

 private:
  std::shared_ptr<R> runtime_;
  void* device_;
  std::uint8_t* pinned_;
};

/// A fixture with one runtime, which destroys the streams and events of the test when the test
/// ends.
template <class R>
class RuntimeTest : public ::testing::Test {
 protected:
  using Stream = typename R::native_stream;
  using Event = typename R::native_event;

  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << R::name << ": " << reason;
    }
    runtime = std::make_shared<R>();
  }
  void TearDown() override {
    for (auto stream : streams_) {
      runtime->destroy_stream(stream);
    }
    for (auto event : events_) {
      runtime->destroy_event(event);
    }
  }

  Stream stream() { return streams_.emplace_back(runtime->create_stream(StreamPriority::normal)); }
  Event event(EventTiming timing = EventTiming::untimed) {
    return events_.emplace_back(runtime->create_event(timing));
  }
  Event recorded(Stream on) {
    auto const made = event();
    runtime->record(made, on);
    return made;
  }

  std::shared_ptr<R> runtime;

 private:
  std::vector<Stream> streams_;
  std::vector<Event> events_;
};

}  // namespace msstream::testing
