// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_queue.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/host.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream {

static_assert(InteropRuntime<Host>);
static_assert(CapturingRuntime<Host>);

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t physical_memory_bytes() {
  long const pages = sysconf(_SC_PHYS_PAGES);
  long const page_bytes = sysconf(_SC_PAGE_SIZE);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

void* aligned_memory(std::size_t bytes) {
  bool const can_round_up = bytes <= std::numeric_limits<std::size_t>::max() - kAlignment;
  void* const memory =
      can_round_up
          ? std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)
          : nullptr;
  if (memory == nullptr) {
    throw OutOfMemory(bytes,
                      fmt::format("host runtime: the machine has no {} bytes to give", bytes));
  }
  return memory;
}

/// Makes a stream that waits for captured work part of the capture. Throws RuntimeError if the
/// capture is over, or if the stream is already part of another capture.
void follow_captured(HostQueue& stream, HostCapturePlace const& place) {
  if (place.capture->is_over()) {
    detail::throw_capture_error("wait", "the event was captured, and the capture is over");
  }
  if (!stream.follow(place)) {
    stream.place().capture->spoil("the streams are part of two captures");
    place.capture->refuse("wait", "the streams are part of two captures");
  }
}

}  // namespace

/// An event of the host runtime: the point in a queue or in a capture at which it was recorded
/// last. A recording replaces the point; a wait copies it.
struct Host::Event {
  struct Point {
    std::shared_ptr<HostProgress> progress;
    std::uint64_t number = 0;
    std::shared_ptr<std::chrono::steady_clock::time_point> time;
    HostCapturePlace captured = {};
  };

  explicit Event(EventTiming with_timing) : timing(with_timing) {}
  [[nodiscard]] Point point() {
    std::lock_guard const lock(mutex);
    return current;
  }
  /// Returns the event's point, for a host function that queries or waits for it. Throws
  /// RuntimeError if the event was recorded in a capture, because captured work never runs by
  /// itself.
  [[nodiscard]] Point run_point(std::string_view call) {
    auto of_event = point();
    if (of_event.captured.capture != nullptr) {
      of_event.captured.capture->refuse(call, "the event is captured");
    }
    return of_event;
  }

  EventTiming const timing;
  std::mutex mutex;
  Point current;
};

struct Host::Graph {
  std::unique_ptr<HostProgram> program;
  std::uint64_t launches = 0;
};

/// The queues of the existing streams, and those of destroyed streams whose threads may still run.
struct Host::Streams {
  std::mutex mutex;
  std::vector<std::unique_ptr<HostQueue>> live;
  std::vector<std::unique_ptr<HostQueue>> retired;
};

Host::Host() : Host(Options()) {}

Host::Host(Options options)
    : memory_bytes_(options.memory_bytes != 0 ? options.memory_bytes : physical_memory_bytes()),
      streams_(std::make_unique<Streams>()) {}

Host::~Host() {
  // In a child of fork(), the queues' threads do not exist, and the queues' locks may be held.
  if (home_.is_left()) {
    for (auto* const queues : {&streams_->live, &streams_->retired}) {
      for (auto& queue : *queues) {
        detail::HomeProcess::keep(std::shared_ptr<void const>(std::move(queue)));
      }
    }
  }
}

Host::native_stream Host::create_stream(StreamPriority) {
  home_.require_here();
  auto queue = std::make_unique<HostQueue>();
  std::lock_guard const lock(streams_->mutex);
  std::erase_if(streams_->retired, [](auto const& old) { return old->finished(); });
  return streams_->live.emplace_back(std::move(queue)).get();
}

void Host::destroy_stream(native_stream stream) noexcept {
  if (home_.is_left()) {
    return;
  }
  if (auto const place = stream->place(); place.capture != nullptr) {
    place.capture->spoil("a captured stream was destroyed");
  }
  stream->finish();
  std::lock_guard const lock(streams_->mutex);
  auto& live = streams_->live;
  auto const found = std::find_if(
      live.begin(), live.end(), [&](auto const& queue) { return queue.get() == stream; });
  streams_->retired.push_back(std::move(*found));
  live.erase(found);
}

void Host::synchronize_stream(native_stream stream) {
  home_.require_here();
  if (auto const place = stream->place(); place.capture != nullptr) {
    place.capture->refuse("synchronize_stream", "the stream is captured");
  }
  auto const newest = stream->enqueued();
  stream->progress()->wait(newest);
  stream->progress()->rethrow_failure_up_to(newest);
}

Host::native_event Host::create_event(EventTiming timing) {
  return new Event(timing);
}

void Host::destroy_event(native_event event) noexcept {
  delete event;
}

void Host::record(native_event event, native_stream stream) {
  home_.require_here();
  Event::Point point{stream->progress(), 0, nullptr};
  if (auto place = stream->place(); place.capture != nullptr) {
    point = {nullptr, 0, nullptr, std::move(place)};
  } else if (event->timing == EventTiming::timed) {
    point.time = std::make_shared<std::chrono::steady_clock::time_point>();
    point.number =
        stream->enqueue([time = point.time] { *time = std::chrono::steady_clock::now(); });
  } else {
    point.number = stream->enqueued();
  }
  std::lock_guard const lock(event->mutex);
  event->current = std::move(point);
}

void Host::wait(native_stream stream, native_event event) {
  home_.require_here();
  auto point = event->point();
  if (point.captured.capture != nullptr) {
    follow_captured(*stream, point.captured);
    return;
  }
  if (auto const place = stream->place(); place.capture != nullptr && point.progress != nullptr) {
    place.capture->refuse("wait", "the stream is captured, and the event is not");
  }
  if (point.progress == nullptr || point.progress == stream->progress() ||
      (point.progress->completed() >= point.number &&
       !point.progress->failed_up_to(point.number))) {
    return;
  }
  // Passes a failure on to the waiting stream, because on a real device a failure affects every
  // stream.
  stream->enqueue(
      [progress = std::move(point.progress), number = point.number, own = stream->progress()] {
        progress->wait(number);
        progress->pass_failure_up_to(number, *own);
      });
}

bool Host::query(native_event event) {
  home_.require_here();
  auto const point = event->run_point("query");
  if (point.progress == nullptr) {
    return true;
  }
  // Loads the progress before the failure. If the work fails between the two loads, it is then
  // either not complete yet, or seen as failed.
  bool const complete = point.progress->completed() >= point.number;
  point.progress->rethrow_failure_up_to(point.number);
  return complete;
}

void Host::synchronize(native_event event) {
  home_.require_here();
  auto const point = event->run_point("synchronize");
  if (point.progress != nullptr) {
    point.progress->wait(point.number);
    point.progress->rethrow_failure_up_to(point.number);
  }
}

double Host::elapsed_ns(native_event begin, native_event end) {
  home_.require_here();
  auto const from = begin->run_point("elapsed_ns");
  auto const to = end->run_point("elapsed_ns");
  require(from.time != nullptr && to.time != nullptr,
          "elapsed_ns: both events must be timed and recorded");
  from.progress->wait(from.number);
  to.progress->wait(to.number);
  return std::chrono::duration<double, std::nano>(*to.time - *from.time).count();
}

/// Adds the bytes to the total in one atomic step. A request that exceeds the limit therefore never
/// makes a concurrent request fail that fits.
void Host::take_bytes(std::size_t bytes) {
  auto before = allocated_bytes_.load();
  do {
    if (bytes > memory_bytes_ || before > memory_bytes_ - bytes) {
      throw OutOfMemory(
          bytes,
          fmt::format(
              "host runtime: {} bytes asked, {} of {} in use", bytes, before, memory_bytes_));
    }
  } while (!allocated_bytes_.compare_exchange_weak(before, before + bytes));
}

void* Host::allocate_device(std::size_t bytes) {
  take_bytes(bytes);
  try {
    return aligned_memory(bytes);
  } catch (...) {
    allocated_bytes_.fetch_sub(bytes);
    throw;
  }
}

void Host::free_device(void* memory, std::size_t bytes) noexcept {
  std::free(memory);
  allocated_bytes_.fetch_sub(bytes);
}

void* Host::allocate_pinned(std::size_t bytes) {
  return aligned_memory(bytes);
}

void Host::free_pinned(void* memory, std::size_t) noexcept {
  std::free(memory);
}

MemoryInfo Host::memory_info() const {
  return {memory_bytes_ - std::min(memory_bytes_, allocated_bytes_.load()), memory_bytes_};
}

void Host::copy(void* to, void const* from, std::size_t bytes, CopyKind, native_stream stream) {
  stream->enqueue([=] { std::memmove(to, from, bytes); });
}

void Host::fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
  stream->enqueue([=] { std::memset(memory, value, bytes); });
}

void Host::begin_capture(native_stream stream) {
  bool const is_first = stream->place().capture == nullptr &&
                        stream->follow({std::make_shared<HostCapture>(stream->id()), {}});
  if (!is_first) {
    stream->place().capture->refuse("begin_capture", "the stream is captured already");
  }
}

bool Host::is_capture_sound(native_stream stream) const {
  auto const place = stream->place();
  return place.capture != nullptr && place.capture->is_sound();
}

Host::native_graph Host::end_capture(native_stream stream) {
  auto const place = stream->place();
  if (place.capture == nullptr) {
    detail::throw_capture_error("end_capture", "the stream is not captured");
  }
  if (place.capture->origin() != stream->id()) {
    place.capture->refuse("end_capture", "the capture did not begin on the stream");
  }
  return new Graph{place.capture->end(place.nodes)};
}

void Host::abandon_capture(native_stream stream) noexcept {
  if (auto const place = stream->place(); place.capture != nullptr) {
    place.capture->abandon();
  }
}

void Host::launch_graph(native_graph graph, native_stream stream) {
  home_.require_here();
  stream->enqueue([graph, number = graph->launches++] { graph->program->run(number); });
}

void Host::destroy_graph(native_graph graph) noexcept {
  if (home_.is_left()) {
    detail::HomeProcess::keep(std::shared_ptr<void const>(graph, [](Graph*) {}));
    return;
  }
  delete graph;
}

Host::stream_ref Host::ref(native_stream stream, native_libraries) const {
  return HostStream(*stream);
}

std::optional<ForeignStream> Host::identify(native_stream stream) const {
  if (stream->place().capture != nullptr) {
    return std::nullopt;
  }
  return ForeignStream{stream->id(), false};
}

void Host::call_host(native_stream stream, Closure closure) {
  stream->enqueue(std::move(closure));
}

}  // namespace msstream
