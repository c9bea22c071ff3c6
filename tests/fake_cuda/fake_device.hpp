// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cudart.hpp"
#include "fake_pages.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fake_cuda {

/// The work of one stream that has not run.
struct Queue {
  std::deque<std::function<void()>> actions;
};

/// A position in a stream's work, which a recorded event represents. It keeps the work alive after
/// the stream is destroyed.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t reached_at = 0;  ///< ticks; 0 if not reached yet
};

/// The work enqueued on captured streams, in the order of the calls. A launch of the graph runs it
/// in that order.
struct Capture {
  cudaStream_t origin;
  std::vector<std::function<void()>> actions;
  int pending_uploads = 0;
  std::vector<std::shared_ptr<void>> user_objects;  ///< see FakeDevice::retain()
};

enum class MemoryKind : std::uint8_t { device, pinned };

/// The only fake device, and everything created on it. Callers of all members must hold `mutex`,
/// which is recursive because a host function may run during a call.
class FakeDevice {
 public:
  static constexpr std::size_t kMemoryBytes = std::size_t{16} << 30U;

  /// Returns the device. It is never destroyed, because destructors of static objects may call
  /// CUDA.
  static FakeDevice& instance();

  cudaError_t create_stream(cudaStream_t* stream);
  cudaError_t destroy_stream(cudaStream_t stream);
  cudaError_t enqueue(cudaStream_t stream, std::function<void()> action);
  cudaError_t enqueue_host_function(cudaStream_t stream, cudaHostFn_t function, void* data);
  cudaError_t synchronize_stream(cudaStream_t stream);

  cudaError_t create_event(cudaEvent_t* event, bool timed);
  cudaError_t destroy_event(cudaEvent_t event);
  cudaError_t record(cudaEvent_t event, cudaStream_t stream);
  cudaError_t wait(cudaStream_t stream, cudaEvent_t event);
  cudaError_t query(cudaEvent_t event);
  cudaError_t synchronize(cudaEvent_t event);
  cudaError_t elapsed_ms(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

  cudaError_t allocate(void** memory, std::size_t bytes, MemoryKind kind);
  cudaError_t release(void* memory, MemoryKind kind);
  [[nodiscard]] std::size_t free_bytes() const {
    return kMemoryBytes - device_bytes_ - pages.page_count() * FakePages::kPageBytes;
  }
  FakePages pages;
  /// Returns whether all bytes lie in one existing allocation of the given kind, or in mapped
  /// pages.
  [[nodiscard]] bool owns(void const* memory, std::size_t bytes, MemoryKind kind) const;

  /// Returns a new handle. Handles are never reused.
  void* new_handle() { return reinterpret_cast<void*>(next_handle_ += kHandleStride); }
  std::set<void const*> blas_handles;
  cudaError_t begin_capture(cudaStream_t origin);
  cudaError_t end_capture(cudaStream_t origin, cudaGraph_t* graph);
  /// Enqueues the upload of a graph on a stream. Reports a misuse if the graph is launched
  /// before the upload is complete: on a GPU that processes share, such a launch may never end.
  cudaError_t upload(void const* graph, cudaStream_t stream);
  cudaError_t launch(void const* graph, cudaStream_t stream);
  /// Returns the capture that the stream is part of, or null.
  [[nodiscard]] Capture const* capture_of(cudaStream_t stream) const {
    auto const found = captured_.find(stream);
    return found != captured_.end() ? found->second.get() : nullptr;
  }
  /// Removes a graph or an executable graph. Returns whether it was there.
  bool destroy_graph(void const* graph);
  /// Keeps an object until the last graph of the stream's capture is destroyed, like
  /// cudaGraphRetainUserObject(). Does nothing if the stream is not being captured.
  void retain(cudaStream_t stream, std::shared_ptr<void> object) {
    if (auto const found = captured_.find(stream); found != captured_.end()) {
      found->second->user_objects.push_back(std::move(object));
    }
  }
  void spoil_capture_of(cudaStream_t stream) { captured_.erase(stream); }
  /// The graphs and executable graphs, by their handles.
  std::map<void const*, std::shared_ptr<Capture>> graphs;
  [[nodiscard]] bool has(cudaStream_t stream) const { return streams_.contains(stream); }

  [[nodiscard]] Live live() const;
  /// Returns whether an existing FailingCall makes this call fail.
  [[nodiscard]] bool fails_now(std::string_view call) {
    return call == failing_call && --calls_before_failure == 0;
  }

  /// Stores the description of a violation of CUDA's rules, and returns `code`.
  cudaError_t misuse(std::string sentence, cudaError_t code);

  /// Returns whether the calling thread is inside a host function of a stream.
  [[nodiscard]] static bool inside_host_function() noexcept;

  std::recursive_mutex mutex;
  Counts counts;
  std::vector<std::string> misuses;
  bool busy = false;
  int driver_version = CUDART_VERSION;  ///< the CUDA that the driver supports; 0 without a driver
  std::string failing_call;
  std::uint64_t calls_before_failure = 0;

 private:
  struct Event {
    bool timed;
    std::shared_ptr<Point> point;  ///< null if never recorded, or captured
    std::shared_ptr<Capture> capture = nullptr;
  };
  struct Allocation {
    std::size_t bytes;
    MemoryKind kind;
  };

  static constexpr std::uintptr_t kHandleStride = 64;

  FakeDevice() = default;

  static void run_next(Queue& queue);
  static void run_to(Point const& point);
  void run_everything();
  Event* find(cudaEvent_t event);

  std::map<cudaStream_t, std::shared_ptr<Queue>> streams_;
  std::map<cudaStream_t, std::shared_ptr<Capture>> captured_;
  std::map<cudaEvent_t, Event> events_;
  std::map<std::byte const*, Allocation> allocations_;
  std::vector<std::shared_ptr<Queue>> orphans_;  ///< unfinished work of destroyed streams
  std::size_t device_bytes_ = 0;
  std::uint64_t ticks_ = 0;
  std::uintptr_t next_handle_ = 0xFA4E'0000'0000;
};

}  // namespace fake_cuda
