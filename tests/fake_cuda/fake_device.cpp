// SPDX-License-Identifier: Apache-2.0
#include "fake_device.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace fake_cuda {

namespace {

std::uintptr_t number_of(void const* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

thread_local bool in_host_function = false;

}  // namespace

FakeDevice& FakeDevice::instance() {
  static auto* const device = new FakeDevice;
  return *device;
}

bool FakeDevice::inside_host_function() noexcept {
  return in_host_function;
}

cudaError_t FakeDevice::misuse(std::string sentence, cudaError_t code) {
  misuses.push_back(std::move(sentence));
  return code;
}

cudaError_t FakeDevice::create_stream(cudaStream_t* stream) {
  *stream = static_cast<cudaStream_t>(new_handle());
  streams_.emplace(*stream, std::make_shared<Queue>());
  return cudaSuccess;
}

cudaError_t FakeDevice::destroy_stream(cudaStream_t stream) {
  auto const found = streams_.find(stream);
  if (found == streams_.end()) {
    return misuse(fmt::format("destroys stream {}", number_of(stream)),
                  cudaErrorInvalidResourceHandle);
  }
  if (captured_.erase(stream) != 0) {
    return misuse(fmt::format("destroys captured stream {}", number_of(stream)),
                  cudaErrorIllegalState);
  }
  orphans_.push_back(std::move(found->second));
  streams_.erase(found);
  return cudaSuccess;
}

cudaError_t FakeDevice::enqueue(cudaStream_t stream, std::function<void()> action) {
  auto const found = streams_.find(stream);
  if (found == streams_.end()) {
    // Rejects the legacy default stream as well, because it synchronises with other streams, so the
    // library must not use it.
    return misuse(fmt::format("puts work on stream {}", number_of(stream)),
                  cudaErrorInvalidResourceHandle);
  }
  auto const capture = captured_.find(stream);
  if (capture != captured_.end()) {
    capture->second->actions.push_back(std::move(action));
  } else {
    found->second->actions.push_back(std::move(action));
  }
  return cudaSuccess;
}

cudaError_t FakeDevice::begin_capture(cudaStream_t origin) {
  if (!has(origin) || captured_.contains(origin)) {
    return misuse(fmt::format("captures stream {}", number_of(origin)), cudaErrorIllegalState);
  }
  captured_.emplace(origin, std::make_shared<Capture>(Capture{origin, {}, 0, {}}));
  return cudaSuccess;
}

cudaError_t FakeDevice::end_capture(cudaStream_t origin, cudaGraph_t* graph) {
  *graph = nullptr;
  auto const found = captured_.find(origin);
  if (found == captured_.end() || found->second->origin != origin) {
    return cudaErrorIllegalState;
  }
  auto const capture = found->second;
  std::erase_if(captured_, [&](auto const& entry) { return entry.second == capture; });
  *graph = static_cast<cudaGraph_t>(new_handle());
  graphs.emplace(*graph, capture);
  return cudaSuccess;
}

bool FakeDevice::destroy_graph(void const* graph) {
  auto const found = graphs.find(graph);
  if (found == graphs.end()) {
    return false;
  }
  auto const capture = found->second;
  graphs.erase(found);
  bool const has_others = std::any_of(
      graphs.begin(), graphs.end(), [&](auto const& entry) { return entry.second == capture; });
  if (!has_others) {
    capture->user_objects.clear();
  }
  return true;
}

cudaError_t FakeDevice::upload(void const* graph, cudaStream_t stream) {
  auto const found = graphs.find(graph);
  if (found == graphs.end()) {
    return misuse(fmt::format("uploads graph {}", number_of(graph)), cudaErrorInvalidValue);
  }
  ++found->second->pending_uploads;
  return enqueue(stream, [capture = found->second] { --capture->pending_uploads; });
}

cudaError_t FakeDevice::launch(void const* graph, cudaStream_t stream) {
  auto const found = graphs.find(graph);
  if (found == graphs.end()) {
    return misuse(fmt::format("launches graph {}", number_of(graph)), cudaErrorInvalidValue);
  }
  if (found->second->pending_uploads != 0) {
    static_cast<void>(
        misuse(fmt::format("launches graph {} before the host knows that it is uploaded",
                           number_of(graph)),
               cudaErrorLaunchFailure));
  }
  return enqueue(stream, [capture = found->second] {
    for (auto const& action : capture->actions) {
      action();
    }
  });
}

cudaError_t FakeDevice::enqueue_host_function(cudaStream_t stream,
                                              cudaHostFn_t function,
                                              void* data) {
  return enqueue(stream, [function, data]() noexcept {  // the driver passes no exceptions on
    bool const outer = std::exchange(in_host_function, true);
    function(data);
    in_host_function = outer;
  });
}

cudaError_t FakeDevice::synchronize_stream(cudaStream_t stream) {
  auto const found = streams_.find(stream);
  if (found == streams_.end()) {
    return misuse(fmt::format("waits for stream {}", number_of(stream)),
                  cudaErrorInvalidResourceHandle);
  }
  auto const queue = found->second;
  while (!queue->actions.empty()) {
    run_next(*queue);
  }
  return cudaSuccess;
}

cudaError_t FakeDevice::create_event(cudaEvent_t* event, bool timed) {
  *event = static_cast<cudaEvent_t>(new_handle());
  events_.emplace(*event, Event{timed, nullptr});
  return cudaSuccess;
}

cudaError_t FakeDevice::destroy_event(cudaEvent_t event) {
  if (events_.erase(event) == 0) {
    return misuse(fmt::format("destroys event {}", number_of(event)),
                  cudaErrorInvalidResourceHandle);
  }
  return cudaSuccess;
}

FakeDevice::Event* FakeDevice::find(cudaEvent_t event) {
  auto const found = events_.find(event);
  if (found == events_.end()) {
    static_cast<void>(
        misuse(fmt::format("uses event {}", number_of(event)), cudaErrorInvalidResourceHandle));
    return nullptr;
  }
  return &found->second;
}

cudaError_t FakeDevice::record(cudaEvent_t event, cudaStream_t stream) {
  auto* const recorded = find(event);
  if (recorded == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (auto const capture = captured_.find(stream); capture != captured_.end()) {
    recorded->capture = capture->second;
    recorded->point = nullptr;
    return cudaSuccess;
  }
  recorded->capture = nullptr;
  auto const point = std::make_shared<Point>();
  auto const code = enqueue(stream, [this, point] { point->reached_at = ++ticks_; });
  if (code == cudaSuccess) {
    point->queue = streams_.at(stream);
    recorded->point = point;
  }
  return code;
}

cudaError_t FakeDevice::wait(cudaStream_t stream, cudaEvent_t event) {
  auto const* const awaited = find(event);
  if (awaited == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (awaited->capture != nullptr) {
    return captured_.emplace(stream, awaited->capture).first->second == awaited->capture
               ? cudaSuccess
               : misuse("lets one capture wait for another", cudaErrorStreamCaptureMerge);
  }
  if (captured_.contains(stream)) {
    return misuse("lets a capture wait for what is not captured", cudaErrorStreamCaptureIsolation);
  }
  return enqueue(stream, [point = awaited->point] {
    if (point != nullptr) {
      run_to(*point);
    }
  });
}

cudaError_t FakeDevice::query(cudaEvent_t event) {
  auto const* const asked = find(event);
  if (asked == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (asked->capture != nullptr) {
    return misuse("asks about a captured event", cudaErrorCapturedEvent);
  }
  auto const point = asked->point;
  if (point == nullptr || point->reached_at != 0) {
    return cudaSuccess;
  }
  if (busy) {
    return cudaErrorNotReady;
  }
  run_to(*point);
  return cudaSuccess;
}

cudaError_t FakeDevice::synchronize(cudaEvent_t event) {
  auto const* const awaited = find(event);
  if (awaited == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (awaited->capture != nullptr) {
    return misuse("waits for a captured event", cudaErrorCapturedEvent);
  }
  if (auto const point = awaited->point) {
    run_to(*point);
  }
  return cudaSuccess;
}

cudaError_t FakeDevice::elapsed_ms(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  auto const* const first = find(begin);
  auto const* const last = find(end);
  if (first == nullptr || last == nullptr || !first->timed || !last->timed ||
      first->point == nullptr || last->point == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (first->point->reached_at == 0 || last->point->reached_at == 0) {
    return cudaErrorNotReady;
  }
  *milliseconds =
      static_cast<float>(last->point->reached_at) - static_cast<float>(first->point->reached_at);
  return cudaSuccess;
}

void FakeDevice::run_next(Queue& queue) {
  auto const action = std::move(queue.actions.front());
  queue.actions.pop_front();
  action();
}

/// Runs the work of a stream up to the point, and first the work that it waits for. The recursion
/// ends, because a stream waits only for points that were recorded before its wait.
void FakeDevice::run_to(Point const& point) {
  while (point.reached_at == 0) {
    run_next(*point.queue);
  }
}

void FakeDevice::run_everything() {
  auto queues = std::exchange(orphans_, {});
  for (auto const& [handle, queue] : streams_) {
    queues.push_back(queue);
  }
  for (auto const& queue : queues) {
    while (!queue->actions.empty()) {
      run_next(*queue);
    }
  }
}

cudaError_t FakeDevice::allocate(void** memory, std::size_t bytes, MemoryKind kind) {
  constexpr std::size_t kAlignment = 256;
  if (kind == MemoryKind::device && bytes > free_bytes()) {
    return cudaErrorMemoryAllocation;
  }
  auto const aligned = std::max((bytes + kAlignment - 1) / kAlignment, std::size_t{1}) * kAlignment;
  auto* const allocated = static_cast<std::byte*>(std::aligned_alloc(kAlignment, aligned));
  if (allocated == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  allocations_.emplace(allocated, Allocation{bytes, kind});
  device_bytes_ += kind == MemoryKind::device ? bytes : 0;
  *memory = allocated;
  return cudaSuccess;
}

/// Frees memory after waiting for all work of the device, as cudaFree does.
cudaError_t FakeDevice::release(void* memory, MemoryKind kind) {
  if (memory == nullptr) {
    return cudaSuccess;
  }
  auto const found = allocations_.find(static_cast<std::byte const*>(memory));
  if (found == allocations_.end() || found->second.kind != kind) {
    return misuse(fmt::format("frees memory at {}", number_of(memory)), cudaErrorInvalidValue);
  }
  run_everything();
  device_bytes_ -= kind == MemoryKind::device ? found->second.bytes : 0;
  allocations_.erase(found);
  std::free(memory);
  return cudaSuccess;
}

bool FakeDevice::owns(void const* memory, std::size_t bytes, MemoryKind kind) const {
  if (kind == MemoryKind::device && pages.owns(memory, bytes)) {
    return true;
  }
  auto const* const begin = static_cast<std::byte const*>(memory);
  auto const after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) {
    return false;
  }
  auto const& [start, allocation] = *std::prev(after);
  return allocation.kind == kind && begin + bytes <= start + allocation.bytes;
}

Live FakeDevice::live() const {
  auto const count_of = [this](MemoryKind kind) {
    return static_cast<std::uint64_t>(
        std::count_if(allocations_.begin(), allocations_.end(), [&](auto const& entry) {
          return entry.second.kind == kind;
        }));
  };
  return {streams_.size(),
          events_.size(),
          count_of(MemoryKind::device),
          count_of(MemoryKind::pinned),
          pages.page_count(),
          graphs.size()};
}

}  // namespace fake_cuda
