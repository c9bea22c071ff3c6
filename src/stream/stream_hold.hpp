// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace msstream::detail {

/// A guard that keeps a stream from starting work issued after the guard was made, until the guard
/// is destroyed. The device then finds all of that work ready, however long the host took to issue
/// it. If the host waits for the stream while the guard lives, it blocks until the hold ends by
/// itself after kPatience.
class StreamHold {
 public:
  static constexpr std::chrono::seconds kPatience{1};

  /// Puts a host function on a native stream of the runtime that blocks the stream until the guard
  /// is destroyed.
  template <class R, class Native>
  [[nodiscard("without a name the guard goes at once")]] StreamHold(R& runtime, Native stream)
      : gate_(std::make_shared<Gate>()) {
    runtime.call_host(stream, [gate = gate_] { gate->pass(); });
  }
  ~StreamHold() { gate_->open(); }
  StreamHold(StreamHold const&) = delete;
  StreamHold& operator=(StreamHold const&) = delete;

 private:
  class Gate {
   public:
    void open() noexcept {
      std::lock_guard const guard(mutex_);
      open_ = true;
      opened_.notify_one();
    }
    void pass() {
      std::unique_lock lock(mutex_);
      opened_.wait_for(lock, kPatience, [this] { return open_; });
    }

   private:
    std::mutex mutex_;
    std::condition_variable opened_;
    bool open_ = false;
  };

  std::shared_ptr<Gate> gate_;
};

}  // namespace msstream::detail
