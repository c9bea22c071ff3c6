// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/observing.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace msstream::sim {

class Machine;
class SimStream;
class Schedule;

/// A function that makes the schedule of one simulation, and an identical schedule at each call.
using ScheduleFactory = std::function<std::unique_ptr<Schedule>()>;

/// Makes schedules that choose any legal order at random, determined by the seed.
[[nodiscard]] ScheduleFactory random(std::uint64_t seed);
/// Makes schedules that take the given choices, then always the first candidate. If a given choice
/// is not possible in the program, the program's call at which it would be taken throws
/// std::invalid_argument.
[[nodiscard]] ScheduleFactory replay(std::vector<std::uint32_t> choices);
/// Makes schedules that follow the order of the cost model. Ties are broken at random, determined
/// by the seed.
[[nodiscard]] ScheduleFactory by_time(std::uint64_t seed = 1);

/// Reads a schedule in the format in which the explorer prints it: "random:17", "replay:0.2.1",
/// "by_time:1". Throws std::invalid_argument for any other text.
[[nodiscard]] ScheduleFactory schedule_from(std::string_view written);
/// Reads the schedule in the environment variable MSSTREAM_SIM_SCHEDULE; random(1) if it is not
/// set.
[[nodiscard]] ScheduleFactory schedule_from_environment();

}  // namespace msstream::sim

namespace msstream {

/// The costs of calls and work in a simulation. The defaults are for one H200. A number is a guess
/// unless its comment says that it was measured.
struct SimCost {
  /// The cost of a kernel that has the simulated device to itself.
  struct Kernel {
    double device_ns;  ///< if it has all the multiprocessors that it can fill
    /// The number of multiprocessors that the kernel can fill, at most those of the device; 0 if
    /// the kernel needs none.
    int sms;
    /// The host time in ns of the call that launches the kernel. If null, SimCost::launch_call_ns
    /// is used.
    std::optional<double> launch_ns = std::nullopt;
    /// For a collective, the time in ns that it needs the link to other devices, if nothing else
    /// uses the link meanwhile. It comes after `device_ns`, in which the link is idle, and
    /// collectives that use the link at once share it equally. A collective runs at this speed
    /// whatever kernels run, and keeps `sms` multiprocessors from them.
    std::optional<double> link_ns = std::nullopt;
  };

  // The host times of calls in ns, measured on one H200.
  double launch_call_ns = 2600;  ///< a call that launches a kernel
  double copy_call_ns = 2600;    ///< a call that copies or fills; assumed equal to a launch
  double record_call_ns = 130;   ///< a call that records an event
  double wait_call_ns = 110;     ///< a call that makes a stream wait
  double query_call_ns = 140;    ///< a call that queries an event or a stream

  // The speeds of copies, measured on one H200, and their latency, a guess. Each copy engine runs
  // one copy at a time.
  double h2d_bytes_per_ns = 55;    ///< to the device, from pinned memory
  double d2h_bytes_per_ns = 55;    ///< from the device, to pinned memory
  double d2d_bytes_per_ns = 4280;  ///< counts the bytes read and the bytes written
  double copy_latency_ns = 1000;   ///< the latency of h2d and d2h copies

  /// The number of multiprocessors of the device. Kernels that together need more run
  /// proportionally slower.
  int sm_count = 132;
  /// A function that returns the cost of an operation's first kernel, which includes the
  /// operation's other kernels. For work outside every operation, the name is empty and there are
  /// no uses.
  std::function<Kernel(std::string_view name, std::span<MemoryUse const> uses)> kernel = by_bytes;

  /// Returns the cost of a kernel, estimated from the bytes that it uses: the measured time of a
  /// small kernel in a chain plus the bytes at the device's bandwidth, on one multiprocessor for
  /// every 64 KiB, at most those of the device.
  [[nodiscard]] static Kernel by_bytes(std::string_view name, std::span<MemoryUse const> uses);

  /// Returns the time in ns for which a copy occupies its engine. A fill is a d2d copy of half its
  /// bytes.
  [[nodiscard]] double copy_ns(CopyKind kind, double bytes) const;
};

/// A backend for tests and for cost estimates: a device simulated on the calling thread, in virtual
/// time. The schedule chooses among all things that could happen next.
///
/// Nothing runs in the background: work advances only while the host is inside a call. The schedule
/// decides which work advances and how far, and therefore whether a query finds an event complete.
/// Runs a program identically for an equal schedule. Only the thread that made the simulation may
/// use it: a call from another thread throws std::logic_error, so pools cannot have launch threads.
/// Device memory is zero when it is allocated. After it is freed it stays readable, as garbage,
/// until the work that was queued at that time is complete. A failure of work is rethrown by every
/// call that waits for or queries anything after the failed work, at any later time. The destructor
/// runs the queued work. A program whose work holds the last handle to its own device must wait for
/// that work.
class Sim {
 public:
  struct Event;

  struct Options {
    /// The size in bytes of device memory. Memory is taken from the machine only when it is
    /// allocated.
    std::size_t memory_bytes = std::size_t{16} << 30U;
    /// Chooses what happens next; by default as MSSTREAM_SIM_SCHEDULE says.
    sim::ScheduleFactory schedule = sim::schedule_from_environment();
    SimCost cost = {};  ///< the times of calls and work
    /// Whether work is executed. If false, kernels, copies and fills take their time but are not
    /// executed, so memory never has the right contents: for cost estimates alone. Host functions
    /// run, since the program's progress may depend on them.
    bool runs_work = true;
    /// A function that receives the simulated machine when the simulation begins. It is for the
    /// code that runs a program to be simulated: unfinished work of the program keeps its device
    /// alive, and that code must run the work to completion.
    std::function<void(std::shared_ptr<sim::Machine> const&)> on_start = {};
  };
  using native_stream = sim::SimStream*;
  using native_event = Event*;
  using native_libraries = void*;  ///< always null: a simulation needs no handle
  using stream_ref = HostStream;

  static constexpr std::string_view name = "sim";

  /// Begins a simulation at time 0, for the calling thread alone.
  Sim();
  explicit Sim(Options const& options);
  ~Sim();
  Sim(Sim const&) = delete;
  Sim& operator=(Sim const&) = delete;

  native_stream create_stream(StreamPriority priority);
  void destroy_stream(native_stream stream) noexcept;
  void synchronize_stream(native_stream stream);

  native_event create_event(EventTiming timing);
  void destroy_event(native_event event) noexcept;
  void record(native_event event, native_stream stream);
  void wait(native_stream stream, native_event event);
  bool query(native_event event);
  void synchronize(native_event event);
  /// Returns the virtual time between two timed events in ns.
  double elapsed_ns(native_event begin, native_event end);

  void* allocate_device(std::size_t bytes);
  void free_device(void* memory, std::size_t bytes) noexcept;
  void* allocate_pinned(std::size_t bytes);
  void free_pinned(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] MemoryInfo memory_info() const;

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream);
  void call_host(native_stream stream, Closure closure);
  /// Makes the stream's later work wait until `*open` is true.
  void hold(native_stream stream, std::shared_ptr<std::atomic<bool>> open);

  native_libraries create_libraries(LibraryOptions const&) { return nullptr; }
  void destroy_libraries(native_libraries) noexcept {}
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries) const;
  /// Throws std::logic_error if called on another thread than the one that made the simulation.
  void make_current() const;

  OperationHandle declare(Operation operation);
  void operation_begins(OperationHandle const& operation, native_stream stream);
  void operation_given_up(OperationHandle const&) noexcept {}
  void operation_ends(OperationHandle const& operation,
                      native_stream stream,
                      Outcome outcome) noexcept;
  /// Does nothing: work that bypasses issue() declares no uses, and is assumed to touch everything.
  void foreign_work_begins(OperationHandle const&, native_stream) {}
  void foreign_work_ends(OperationHandle const&, native_stream) noexcept {}
  void memory_pooled(void const* memory, std::size_t bytes);
  void memory_taken(void const*, std::size_t) {}
  void memory_returned(void const*, std::size_t) noexcept {}
  void host_uses(MemoryUse const& use);

  /// Returns the virtual time in ns that the calls of the runtime so far have taken on the host,
  /// waiting included.
  [[nodiscard]] double host_time_ns() const noexcept;
  /// Returns the number of pieces of work (kernels, copies, fills, host functions) that the
  /// simulated device has completed.
  [[nodiscard]] std::uint64_t executed() const noexcept;

 private:
  std::shared_ptr<sim::Machine> machine_;
  std::size_t memory_bytes_;
  std::size_t allocated_bytes_ = 0;
};

static_assert(ObservingRuntime<Sim>);

template <>
inline constexpr bool runs_beside_host<Sim> = false;
template <>
inline constexpr bool must_be_asked<Sim> = true;

}  // namespace msstream
