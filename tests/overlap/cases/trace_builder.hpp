// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Small recordings whose times follow from a program: host threads issue calls that cost time, and
/// a simulated GPU runs what they issue by the rules that CUDA documents. A test states a program
/// and what to expect of its report, and cannot state times that no GPU would produce.
namespace msstream::overlap::cases {

inline constexpr Ns us = 1'000;
inline constexpr Ns ms = 1'000'000;

/// The simulated GPU, by default one with the limits of an H100.
struct Gpu {
  std::string name = "GPU";
  int sms = 132;
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  int registers_per_sm = 65536;
  std::int64_t shared_bytes_per_sm = 233472;
  int channels = 32;                ///< hardware queues; streams get them in turn
  double pinned_bytes_per_ns = 50;  ///< of copies between host and device, each direction
  double pageable_bytes_per_ns = 8;
  double device_bytes_per_ns = 1500;  ///< of copies within the device
  int queue_depth = 1024;             ///< launches that wait before the next one blocks the host
  Ns launch_latency = 2 * us;         ///< from a call's end until the device sees the work
  Ns follow_latency = 700;            ///< from an activity's end to the next one of its stream
  Ns wait_latency = 1200;             ///< from an activity's end to one of another stream
};

/// What a kernel says of its collective.
struct CollectiveOf {
  std::string name = "allreduce";
  std::string group = "default";
  std::int64_t sequence = 0;
  std::int64_t bytes = 0;
};

struct Kernel {
  std::string name = "work";
  Ns duration = 20 * us;  ///< alone on the device
  int blocks = 32;
  int threads = 256;
  int registers = 32;
  std::int64_t shared_bytes = 0;
  double bandwidth = 0;  ///< the share of the device's memory bandwidth that it needs
  std::optional<CollectiveOf> collective = {};
  Ns ends_at = 0;  ///< a collective ends no earlier, since another rank comes so late
};

/// A kernel in a graph, after others of the graph that it names by place.
struct Node {
  Kernel kernel;
  std::vector<std::size_t> after;
};

using StreamNumber = Index;
using EventNumber = Index;

/// What one host thread does, in order. Each function appends a step.
class HostThread {
 public:
  /// Work without calls: input, an interpreter.
  HostThread& busy(Ns time);
  HostThread& launch(StreamNumber stream, Kernel kernel, Ns cost = 4 * us);
  /// The first launch of a kernel whose module is not loaded yet: loading it holds the context's
  /// lock, waits until the device is idle if `drains`, and takes `load` more.
  HostThread& launch_first(StreamNumber stream, Kernel kernel, Ns load, bool drains);
  /// Launches an executable graph: one of its own, or `graph`, by a number below 1,000.
  HostThread& launch_graph(StreamNumber stream,
                           std::vector<Node> nodes,
                           Ns cost = 8 * us,
                           std::int64_t graph = kUnknown);
  /// A copy between host and device by cudaMemcpyAsync(). From or to pageable memory, the call
  /// returns when the copy is complete.
  HostThread& copy(StreamNumber stream,
                   CopyDirection direction,
                   std::int64_t bytes,
                   MemoryKind host_memory = MemoryKind::pinned);
  HostThread& fill(StreamNumber stream, std::int64_t bytes);
  HostThread& record(EventNumber event, StreamNumber stream);
  HostThread& wait(StreamNumber stream, EventNumber event);
  HostThread& sync_stream(StreamNumber stream);
  HostThread& sync_event(EventNumber event);
  HostThread& sync_device();
  /// Asks for an event by cudaEventQuery(), again after each `pause`, until it is complete.
  HostThread& poll_event(EventNumber event, Ns pause);
  /// cudaMalloc(), or another allocation by the driver such as cudaHostAlloc().
  HostThread& allocate(Ns cost, std::string_view name = "cudaMalloc");
  /// cudaFree(), which waits until the device is idle.
  HostThread& release(Ns cost = 50 * us);
  /// The recording tool holds up the thread.
  HostThread& recorder(Ns time);
  HostThread& begin_range(std::string_view name, RangeKind kind = RangeKind::annotation);
  HostThread& end_range();

 private:
  friend class Simulation;
  friend class StepEnds;
  enum class Do : std::uint8_t {
    busy,
    launch,
    graph,
    copy,
    fill,
    record,
    wait,
    sync_stream,
    sync_event,
    sync_device,
    poll_event,
    allocate,
    release,
    recorder,
    begin_range,
    end_range,
  };
  struct Step {
    Do what = Do::busy;
    Ns cost = 0;
    Index stream = kNone;
    Index event = kNone;
    Kernel kernel = {};
    std::vector<Node> nodes = {};
    std::int64_t bytes = 0;
    CopyDirection direction = CopyDirection::unknown;
    MemoryKind memory = MemoryKind::unknown;
    RangeKind range = RangeKind::annotation;
    Ns load = 0;
    bool drains = false;
    std::string name = {};
    std::int64_t graph = kUnknown;
  };
  HostThread& add(Step step) {
    steps_.push_back(std::move(step));
    return *this;
  }
  std::vector<Step> steps_;
};

/// What a source does not record.
struct Hidden {
  bool calls = false;
  bool syncs = false;
  bool channels = false;
  bool stream_types = false;
  bool shapes = false;  ///< launch shapes and the device's limits
  bool overheads = false;
  Ns clock_step = 1;  ///< times are rounded to it
};

/// Streams, events and threads of a program.
class TraceBuilder {
 public:
  explicit TraceBuilder(Gpu gpu = {}) : gpu_(std::move(gpu)) {}

  StreamNumber stream(StreamType type = StreamType::non_blocking, int priority = 0);
  EventNumber event() { return events_++; }
  HostThread& thread() { return threads_[0]; }
  HostThread& second_thread() { return threads_[1]; }

  /// Runs the program and returns its recording, sorted.
  [[nodiscard]] Recording run(Hidden const& hidden = {}) const;

 private:
  friend class Simulation;
  friend class StepEnds;
  Gpu gpu_;
  std::vector<Stream> streams_;
  Index events_ = 0;
  std::array<HostThread, 2> threads_;
};

/// Returns the index of the n-th activity of a name; throws std::out_of_range if there is none.
[[nodiscard]] Index find_activity(Recording const& recording,
                                  std::string_view name,
                                  std::size_t n = 0);

}  // namespace msstream::overlap::cases
