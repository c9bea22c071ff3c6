// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_hold.hpp"

#include <msstream/order/position.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/span_timing.hpp>
#include <msstream/trace/timeline.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Records when each operation runs on the device, between start() and stop(). When no recording is
/// on, costs one load per operation.
///
/// During a recording, an operation takes two timed events and a lock: the recorded times are
/// right, but the host is slower. Thread-safe.
class SpanRecorder {
 public:
  explicit SpanRecorder(std::shared_ptr<Backend> runtime) : runtime_(std::move(runtime)) {}
  SpanRecorder(SpanRecorder const&) = delete;
  SpanRecorder& operator=(SpanRecorder const&) = delete;

  [[nodiscard]] bool recording() const noexcept {
    return recording_.load(std::memory_order_relaxed);
  }

  /// Starts a recording, and drops earlier spans. Time zero is when `stream` reaches an event that
  /// the call records.
  void start(NativeStream stream, SpanTiming timing = SpanTiming::as_issued) {
    std::lock_guard const guard(mutex_);
    recording_.store(false);
    discard();
    TimedEvent zero(runtime_);
    runtime_->record(zero.native(), stream);
    zero_.emplace(std::move(zero));
    holds_.store(timing == SpanTiming::held);
    has_events_.store(true);
    recording_.store(true);
  }

  /// Starts a recording of launches alone, without events: the spans' times on the device are 0.
  void start_without_events() {
    std::lock_guard const guard(mutex_);
    recording_.store(false);
    discard();
    holds_.store(false);
    has_events_.store(false);
    recording_.store(true);
  }

  /// Ends the recording, and returns its timeline. Blocks the host until the recorded operations
  /// are complete. If waiting fails, keeps the spans for another call.
  [[nodiscard]] trace::Timeline stop() {
    std::lock_guard const guard(mutex_);
    recording_.store(false);
    if (!zero_ && has_events_.load()) {
      throw std::logic_error("stop of a span recording that was not started");
    }
    std::vector<trace::Timeline::Span> spans;
    for (auto const& entry : entries_) {
      auto const end_ns =
          entry.end ? runtime_->elapsed_ns(zero_->native(), entry.end->native()) : 0;
      auto const begin_ns =
          entry.begin ? runtime_->elapsed_ns(zero_->native(), entry.begin->native()) : 0;
      spans.push_back(
          {entry.name,
           entry.lane,
           entry.held ? std::min(begin_ns + runtime_->traits.timed_on_top_ns, end_ns) : begin_ns,
           end_ns,
           entry.position.stream,
           entry.position.number,
           entry.launch_ns});
    }
    discard();
    has_events_.store(true);
    return trace::Timeline(std::move(spans));
  }

  /// Ends the recording and drops the spans.
  void abandon() noexcept {
    std::lock_guard const guard(mutex_);
    recording_.store(false);
    discard();
  }

  /// Runs `work`, between two timed events on the stream if the recording has events. If the work
  /// throws, records no span.
  template <class Work>
  void record(std::string name,
              std::string lane,
              NativeStream stream,
              order::Position position,
              Work&& work) {
    using Clock = std::chrono::steady_clock;
    std::optional<TimedEvent> begin;
    std::optional<TimedEvent> end;
    if (has_events_.load()) {
      begin.emplace(runtime_);
      end.emplace(runtime_);
    }
    bool const held = runtime_->traits.runs_beside_host && holds_.load();
    std::unique_lock alone(alone_, std::defer_lock);
    if (held) {
      alone.lock();
    }
    Clock::duration launching{};
    {
      std::optional<StreamHold> hold;
      if (held) {
        hold.emplace(*runtime_, stream);
      }
      if (begin) {
        runtime_->record(begin->native(), stream);
      }
      auto const before = Clock::now();
      std::forward<Work>(work)();
      launching = Clock::now() - before;
      if (end) {
        runtime_->record(end->native(), stream);
      }
    }
    if (held) {
      runtime_->synchronize(end->native());
      alone.unlock();
    }
    std::lock_guard const guard(mutex_);
    entries_.push_back({std::move(name),
                        std::move(lane),
                        position,
                        std::move(begin),
                        std::move(end),
                        held,
                        std::chrono::duration<double, std::nano>(launching).count()});
  }

 private:
  /// Owns a timed event.
  class TimedEvent {
   public:
    explicit TimedEvent(std::shared_ptr<Backend> runtime)
        : runtime_(std::move(runtime)), native_(runtime_->create_event(EventTiming::timed)) {}
    TimedEvent(TimedEvent&&) noexcept = default;  // a moved-from object owns nothing
    TimedEvent& operator=(TimedEvent&&) = delete;
    ~TimedEvent() {
      if (runtime_ != nullptr) {
        runtime_->destroy_event(native_);
      }
    }
    [[nodiscard]] NativeEvent native() const noexcept { return native_; }

   private:
    std::shared_ptr<Backend> runtime_;
    NativeEvent native_;
  };
  struct Entry {
    std::string name;
    std::string lane;
    order::Position position;
    std::optional<TimedEvent> begin;
    std::optional<TimedEvent> end;
    bool held;
    double launch_ns;
  };

  void discard() noexcept {
    entries_.clear();
    zero_.reset();
  }

  std::shared_ptr<Backend> runtime_;
  std::atomic<bool> recording_{false};
  std::atomic<bool> holds_{false};
  std::atomic<bool> has_events_{true};
  std::mutex alone_;  ///< held by the one held operation in progress
  std::mutex mutex_;
  std::optional<TimedEvent> zero_;
  std::vector<Entry> entries_;
};

}  // namespace msstream::detail
