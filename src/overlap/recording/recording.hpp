// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/names.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

/// The recording of one process of a CUDA program has one form for all sources:
/// Kineto traces, exports of Nsight Systems, recordings of msstream-overlap, step traces and
/// timelines of msstream, and recordings in the program itself.
namespace msstream::overlap {

/// A time in ns since the start of the recording, on one clock for the host and all devices.
using Ns = std::int64_t;

/// A place in one of the vectors of a Recording; kNone if there is none.
using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

/// A number that is unknown, because the source of the recording does not tell.
inline constexpr int kUnknown = -1;

struct Interval {
  Ns begin = 0;
  Ns end = 0;

  [[nodiscard]] Ns length() const noexcept { return end - begin; }
  friend bool operator==(Interval const&, Interval const&) = default;
};

/// Returns the part of a time in a window: without length, at the nearest edge, if there is none.
[[nodiscard]] inline Interval clipped(Interval const& time, Interval const& window) noexcept {
  return {std::clamp(time.begin, window.begin, window.end),
          std::clamp(time.end, window.begin, window.end)};
}

/// Returns whether a time has a part in a window. One without length counts at both edges, and is
/// in each of two windows that meet there.
[[nodiscard]] inline bool is_in(Interval const& time, Interval const& window) noexcept {
  return time.begin == time.end ? time.begin >= window.begin && time.begin <= window.end
                                : time.begin < window.end && time.end > window.begin;
}

/// A GPU. Limits are kUnknown where the source does not tell.
struct Device {
  int number = 0;  ///< the driver's number of it; kUnknown without a driver
  std::string name;
  int major = kUnknown;  ///< compute capability
  int minor = kUnknown;
  int sms = kUnknown;  ///< multiprocessors
  int threads_per_sm = kUnknown;
  int blocks_per_sm = kUnknown;
  int registers_per_sm = kUnknown;
  std::int64_t shared_bytes_per_sm = kUnknown;
};

enum class StreamType : std::uint8_t {
  unknown,
  legacy,        ///< the legacy default stream, which waits for blocking streams and they for it
  per_thread,    ///< a default stream of a thread
  blocking,      ///< waits for the legacy default stream, and it for this one
  non_blocking,  ///< made with cudaStreamNonBlocking
};

/// A CUDA stream of one context.
struct Stream {
  Index device = 0;
  std::int64_t context = kUnknown;
  std::int64_t number = 0;  ///< the source's number, such as CUPTI's
  StreamType type = StreamType::unknown;
  std::optional<int> priority;  ///< as CUDA counts: lower numbers first
  NameId name = 0;              ///< empty if the source has no name for it
  /// Whether a stream of another context of the device has the same number; sort() finds it out.
  bool shares_number = false;
};

/// A host thread that made calls.
struct Thread {
  std::int64_t process = 0;
  std::int64_t number = 0;
  NameId name = 0;
};

enum class ActivityKind : std::uint8_t {
  kernel,
  copy,
  fill,
  graph,  ///< a whole CUDA graph, whose nodes were not recorded
};

enum class MemoryKind : std::uint8_t { unknown, pageable, pinned, device, managed };

enum class CopyDirection : std::uint8_t { unknown, h2d, d2h, d2d, peer, h2h };

/// The launch of a kernel, which many kernels share. kUnknown where the source does not tell.
struct LaunchShape {
  std::array<int, 3> grid{kUnknown, kUnknown, kUnknown};
  std::array<int, 3> block{kUnknown, kUnknown, kUnknown};
  int registers_per_thread = kUnknown;
  std::int64_t shared_bytes = kUnknown;  ///< static and dynamic, of a block
  std::array<int, 3> cluster{1, 1, 1};

  friend bool operator==(LaunchShape const&, LaunchShape const&) = default;
};

/// The description of a collective operation, from the library that runs it.
struct Collective {
  NameId name = 0;   ///< such as "allreduce"
  NameId group = 0;  ///< the process group or communicator
  /// The ranks of the group, as the source writes them: groups of different ranks may share a name.
  NameId members = 0;
  int ranks = kUnknown;
  std::int64_t sequence = kUnknown;  ///< equal for one collective on all ranks of the group
  std::int64_t bytes = kUnknown;
};

/// Work on a device.
struct Activity {
  Interval time;
  NameId name = 0;
  Index stream = 0;
  ActivityKind kind = ActivityKind::kernel;
  CopyDirection direction = CopyDirection::unknown;  ///< of copies
  MemoryKind source = MemoryKind::unknown;           ///< of copies
  MemoryKind target = MemoryKind::unknown;           ///< of copies and fills
  bool is_graph_node = false;                        ///< a single node of a graph
  Index call = kNone;        ///< the call that issued it; kNone for nodes of graphs without one
  Index shape = kNone;       ///< of kernels
  Index collective = kNone;  ///< if it is one of a collective
  int channel = kUnknown;    ///< the hardware queue
  std::int64_t bytes = kUnknown;  ///< of copies and fills
  std::int64_t graph = kUnknown;  ///< of nodes of graphs: equal for nodes of one graph
};

enum class CallKind : std::uint8_t {
  other,
  launch,        ///< of a kernel
  graph_launch,  ///< of a whole graph
  copy,          ///< also cudaMemcpy(), which waits
  fill,
  allocate,  ///< device or pinned memory, by the driver; not from a pool (cudaMallocAsync())
  release,
  synchronize,    ///< of a stream, an event, a device
  query,          ///< cudaStreamQuery(), cudaEventQuery()
  record_event,   ///< cudaEventRecord()
  wait_event,     ///< cudaStreamWaitEvent()
  load_module,    ///< or compile one
  host_function,  ///< cudaLaunchHostFunc(), cudaStreamAddCallback()
  instantiate,    ///< of a graph
  wait_value,     ///< cuStreamWaitValue32(): a stream waits until memory has a value
  pool_memory,    ///< cudaMallocAsync(), cudaFreeAsync(): needs the driver if the pool grows
};
inline constexpr int kCallKinds = static_cast<int>(CallKind::pool_memory) + 1;

/// A call of the CUDA runtime or driver. Calls inside another recorded call are left out.
struct Call {
  Interval time;
  NameId name = 0;  ///< such as "cudaLaunchKernel", without a version
  Index thread = 0;
  CallKind kind = CallKind::other;
  /// The code that made it, if known: a line of Python, as "train.py(42): log_loss", or a function
  /// of the program, as "Trainer::step() in train".
  NameId code = 0;
};

enum class SyncKind : std::uint8_t {
  device,
  stream,
  event,
  wait,  ///< a stream waits for an event: cudaStreamWaitEvent()
};

/// A synchronisation. `time` is that of the host's waiting, or of the call for a stream's wait.
struct Sync {
  Interval time;
  SyncKind kind = SyncKind::device;
  Index call = kNone;
  Index stream = kNone;  ///< that waits, or that is waited for by the host
  /// The call that recorded the event, and the stream in which it was recorded. kNone if unknown,
  /// and for synchronisations without an event.
  Index record_call = kNone;
  Index record_stream = kNone;
};

/// The recording of an event in a stream: cudaEventRecord().
struct EventRecord {
  Index call = kNone;
  Index stream = kNone;
  std::int64_t event = kUnknown;  ///< handles are used again, so that it alone names no recording
};

/// Two activities of which the second needs what the first wrote, as a step trace declares.
struct Dependency {
  Index before = kNone;
  Index after = kNone;
};

enum class OverheadKind : std::uint8_t {
  other,
  recording,      ///< of the tool that recorded
  module_load,    ///< loading of a module or, lazily, of a function
  compile,        ///< by the driver
  queue_is_full,  ///< the host waits until the driver's queue of commands has room
};

struct Overhead {
  Interval time;
  OverheadKind kind = OverheadKind::other;
  Index thread = kNone;
  NameId name = 0;
};

enum class RangeKind : std::uint8_t {
  nvtx,
  operation,   ///< of a framework, such as PyTorch's aten::add
  annotation,  ///< by the user, such as ProfilerStep#3
  on_device,   ///< an annotation's kernels, from the first one's begin to the last one's end
};

/// A named part of the host's time, or of a device's.
struct Range {
  Interval time;
  NameId name = 0;
  NameId domain = 0;     ///< of NVTX
  Index thread = kNone;  ///< kNone for on_device
  Index stream = kNone;  ///< of on_device
  NameId source = 0;     ///< "file:line", if known
  RangeKind kind = RangeKind::nvtx;
};

/// The source of a recording in the program itself on the host runtime, whose streams are threads.
inline constexpr char const* kHostSource = "msstream on the runtime host";

/// The source of a recording of `msstream-overlap run`.
inline constexpr char const* kRecorderSource = "msstream-overlap run";

/// The recorded work of one process. Vectors that have times are ordered by their begin, after
/// sort().
///
/// Indices between the vectors stay valid under sort(), which renumbers them.
struct Recording {
  Names names;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<Thread> threads;
  std::vector<LaunchShape> shapes;
  std::vector<Collective> collectives;
  std::vector<Activity> activities;
  std::vector<Call> calls;
  std::vector<Sync> syncs;
  std::vector<EventRecord> event_records;
  std::vector<Dependency> dependencies;
  std::vector<Overhead> overheads;
  std::vector<Range> ranges;

  std::string origin;   ///< of messages: a file's name, or "this program"
  std::string program;  ///< that was recorded, if known
  std::string source;   ///< of the format, such as "Kineto" or "Nsight Systems 2026.2.1"
  int rank = kUnknown;  ///< of several processes
  int ranks = kUnknown;
  std::int64_t start_unix_ns = 0;  ///< the time of Ns 0; 0 if unknown
  std::vector<std::string> notes;  ///< what the source lacks or was not read, in words

  // Whether the source records these at all: if not, their absence means nothing.
  bool has_calls = false;
  bool has_syncs = false;  ///< waits of streams for events, with the record that they wait for
  /// Whether events were recorded, but not which one a wait is for: an older version of the source.
  bool lacks_event_numbers = false;
  bool has_channels = false;
  bool has_overheads = false;
  bool has_stream_types = false;
  /// Whether `dependencies` are all that the program has: another order between activities is then
  /// one that the program does not need.
  bool has_dependencies = false;
  /// Whether times were rounded, and to how many ns: 1,000 in old Kineto traces.
  Ns clock_step = 1;

  /// Orders all vectors by time, and renumbers what refers to them.
  void sort();
  /// Leaves out calls, activities and synchronisations that are in the recording twice, and returns
  /// how many they were. The recording must be sorted.
  std::size_t leave_out_duplicates();
  /// Returns a stream's number, with its context if another stream of its device has that number.
  [[nodiscard]] std::string text_of_stream(Stream const& own) const;
  /// Returns the time from the first activity's begin to the last one's end; empty without any.
  [[nodiscard]] std::optional<Interval> extent() const;
};

}  // namespace msstream::overlap
