// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>
#include <msstream/trace/timeline.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

/// Records when each operation ran on the device, between start() and stop(). Off, it costs one
/// load an operation.
///
/// On, an operation takes two timed events and a lock: the picture is right, the host is slower.
/// Thread-safe.
template <Runtime R>
class SpanRecorder {
 public:
  explicit SpanRecorder(std::shared_ptr<R> runtime) : runtime_(std::move(runtime)) {}
  SpanRecorder(SpanRecorder const&) = delete;
  SpanRecorder& operator=(SpanRecorder const&) = delete;
  ~SpanRecorder() { discard(); }

  [[nodiscard]] bool recording() const noexcept {
    return recording_.load(std::memory_order_relaxed);
  }

  /// Time zero is when `stream` gets here. Earlier spans are dropped.
  void start(typename R::native_stream stream) {
    std::lock_guard const guard(mutex_);
    discard();
    zero_ = runtime_->create_event(EventTiming::timed);
    runtime_->record(*zero_, stream);
    recording_.store(true);
  }

  /// Ends the recording; blocks the host until the recorded operations are complete.
  [[nodiscard]] trace::Timeline stop() {
    std::lock_guard const guard(mutex_);
    recording_.store(false);
    if (!zero_) {
      throw std::logic_error("stop of a span recording that was not started");
    }
    std::vector<trace::Span> spans;
    for (auto const& entry : entries_) {
      spans.push_back({entry.name,
                       entry.lane,
                       runtime_->elapsed_ns(*zero_, entry.begin),
                       runtime_->elapsed_ns(*zero_, entry.end)});
    }
    discard();
    return trace::Timeline(std::move(spans));
  }

  /// Runs `work` between two timed events on the stream. Work that throws leaves no span.
  template <class Work>
  void record(std::string name, std::string lane, typename R::native_stream stream, Work&& work) {
    auto const begin = runtime_->create_event(EventTiming::timed);
    auto const end = runtime_->create_event(EventTiming::timed);
    try {
      runtime_->record(begin, stream);
      std::forward<Work>(work)();
      runtime_->record(end, stream);
    } catch (...) {
      runtime_->destroy_event(begin);
      runtime_->destroy_event(end);
      throw;
    }
    std::lock_guard const guard(mutex_);
    entries_.push_back({std::move(name), std::move(lane), begin, end});
  }

 private:
  struct Entry {
    std::string name;
    std::string lane;
    typename R::native_event begin;
    typename R::native_event end;
  };

  void discard() noexcept {
    for (auto const& entry : entries_) {
      runtime_->destroy_event(entry.begin);
      runtime_->destroy_event(entry.end);
    }
    entries_.clear();
    if (zero_) {
      runtime_->destroy_event(*zero_);
      zero_.reset();
    }
  }

  std::shared_ptr<R> runtime_;
  std::atomic<bool> recording_{false};
  std::mutex mutex_;
  std::optional<typename R::native_event> zero_;
  std::vector<Entry> entries_;
};

}  // namespace msstream
