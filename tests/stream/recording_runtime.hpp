// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "order/oracle.hpp"

#include <msstream/base/closure.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

namespace msstream::testing {

/// A runtime that runs nothing and records its calls. Events behave as in CUDA: a record replaces
/// the work that the event covers, and a wait is for the work that the event covers at the time of
/// the call. For one thread only.
class RecordingRuntime {
 public:
  using Oracle = order::testing::Oracle;

  struct Queue {
    std::size_t const index;
    std::size_t records = 0;
  };
  struct Event {
    std::size_t source = 0;  ///< the index of a stream
    Oracle::Node stands_for = Oracle::kNone;
  };
  struct Options {};
  using native_stream = Queue*;
  using native_event = Event*;
  using native_libraries = void*;
  struct stream_ref {};
  static constexpr std::string_view name = "recording";

  /// One recorded call. Every step except a host_wait becomes a node of the oracle.
  struct Step {
    enum class Kind : std::uint8_t { work, wait, host_wait } kind;
    std::size_t stream;
    Oracle::Node after;
  };

  RecordingRuntime() = default;
  explicit RecordingRuntime(Options const&) {}

  /// Decides whether a query reports its event as complete.
  std::function<bool()> found_complete = [] { return false; };
  /// Called with the index of the stream before each wait is issued.
  std::function<void(std::size_t, Event const&)> before_wait = [](auto, auto const&) {};

  /// Called before each record of an event.
  std::function<void()> before_record = [] {};

  [[nodiscard]] Oracle const& oracle() const noexcept { return oracle_; }
  [[nodiscard]] std::vector<Step> const& steps() const noexcept { return steps_; }
  /// Returns how many events were recorded on the stream with the most records.
  [[nodiscard]] std::size_t most_records() const noexcept {
    std::size_t most = 0;
    for (auto const& queue : queues_) {
      most = std::max(most, queue.records);
    }
    return most;
  }
  [[nodiscard]] std::size_t waits() const noexcept { return waits_; }

  Oracle::Node work(native_stream stream) {
    steps_.push_back({Step::Kind::work, stream->index, Oracle::kNone});
    return oracle_.append(stream->index);
  }

  native_stream create_stream(StreamPriority) {
    return &queues_.emplace_back(Queue{queues_.size()});
  }
  void destroy_stream(native_stream) noexcept {}
  void synchronize_stream(native_stream stream) { see(oracle_.tail(stream->index)); }
  native_event create_event(EventTiming) { return new Event; }
  void destroy_event(native_event event) noexcept { delete event; }

  void record(native_event event, native_stream stream) {
    before_record();
    *event = {stream->index, oracle_.tail(stream->index)};
    ++stream->records;
  }
  void wait(native_stream stream, native_event event) {
    before_wait(stream->index, *event);
    steps_.push_back({Step::Kind::wait, stream->index, event->stands_for});
    oracle_.append(stream->index, event->stands_for);
    ++waits_;
  }
  bool query(native_event event) {
    if (!found_complete()) {
      return false;
    }
    see(event->stands_for);
    return true;
  }
  void synchronize(native_event event) { see(event->stands_for); }

  double elapsed_ns(native_event, native_event) { return 0; }
  void* allocate_device(std::size_t) { return nullptr; }
  void free_device(void*, std::size_t) noexcept {}
  void* allocate_pinned(std::size_t) { return nullptr; }
  void free_pinned(void*, std::size_t) noexcept {}
  [[nodiscard]] MemoryInfo memory_info() const { return {}; }
  void copy(void*, void const*, std::size_t, CopyKind, native_stream) {}
  void fill(void*, std::uint8_t, std::size_t, native_stream) {}
  void call_host(native_stream, Closure) {}
  native_libraries create_libraries(LibraryOptions const&) { return nullptr; }
  void destroy_libraries(native_libraries) noexcept {}
  [[nodiscard]] stream_ref ref(native_stream, native_libraries) const { return {}; }
  void make_current() const noexcept {}

 private:
  void see(Oracle::Node node) {
    if (node != Oracle::kNone) {
      steps_.push_back({Step::Kind::host_wait, 0, node});
      oracle_.host_waits_for(node);
    }
  }

  Oracle oracle_;
  std::vector<Step> steps_;
  std::deque<Queue> queues_;  ///< a deque keeps the addresses, which are the handles
  std::size_t waits_ = 0;
};

static_assert(Runtime<RecordingRuntime>);

}  // namespace msstream::testing
