// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/observing.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/sim_cost.hpp>
#include <msstream/runtime/sim_machine.hpp>
#include <msstream/runtime/sim_schedule.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace msstream {

struct SimOptions {
  std::size_t memory_bytes = std::size_t{16} << 30U;  ///< of the device; taken as it is allocated
  sim::ScheduleFactory schedule = sim::schedule_from_environment();
  SimCost cost = {};
  /// False, for prices alone: kernels, copies and fills take their time and are not done, so no
  /// contents are ever what they should be. Host functions run: the program's progress may hang on
  /// them.
  bool runs_work = true;
  /// Gets the simulated machine when it is made, for whoever runs the program: work that the
  /// program leaves behind keeps its device alive and needs someone to run it.
  std::function<void(std::shared_ptr<sim::Machine> const&)> on_start = {};
};

/// The backend for tests and for prices: a device on the calling thread, in which the schedule
/// chooses among all that could happen next, in virtual time.
///
/// Nothing runs by itself: work moves on while the host is inside a call. Which work, how far, and
/// so whether a query finds an event complete, the schedule decides; the same schedule and program
/// give the same run. One thread, the one that made it: another thread's call throws
/// std::logic_error, so pools cannot have launch threads. Device memory is zero when it is
/// allocated, and stays readable, as garbage, until the work that was queued when it was freed is
/// done. A failure is rethrown by those who ask for what comes after the failed work, whenever they
/// ask. The destructor runs what is queued. A program whose work holds the last handle to its own
/// device must wait for that work.
class Sim {
 public:
  struct Event;

  using Options = SimOptions;
  using native_stream = sim::SimStream*;
  using native_event = Event*;
  using native_libraries = void*;  ///< always null
  using stream_ref = HostStream;

  static constexpr std::string_view name = "sim";

  explicit Sim(Options const& options = {});
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
  /// In virtual time.
  double elapsed_ns(native_event begin, native_event end);

  void* allocate_device(std::size_t bytes);
  void free_device(void* memory, std::size_t bytes) noexcept;
  void* allocate_pinned(std::size_t bytes);
  void free_pinned(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] MemoryInfo memory_info() const;

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream);
  void call_host(native_stream stream, Closure closure);
  /// The stream's later work waits until somebody sets `*open`.
  void hold(native_stream stream, std::shared_ptr<std::atomic<bool>> open);

  native_libraries create_libraries(LibraryOptions const&) { return nullptr; }
  void destroy_libraries(native_libraries) noexcept {}
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries) const {
    return HostStream(*stream);
  }
  /// Throws std::logic_error on a second thread.
  void make_current() const { machine_->enter(); }

  OperationHandle declare(Operation operation);
  void operation_begins(OperationHandle const& operation, native_stream stream);
  void operation_given_up(OperationHandle const&) noexcept {}
  void operation_ends(OperationHandle const& operation,
                      native_stream stream,
                      Outcome outcome) noexcept;
  /// Such work declares nothing, and is taken to touch everything.
  void foreign_work_begins(OperationHandle const&, native_stream) {}
  void foreign_work_ends(OperationHandle const&, native_stream) noexcept {}
  void memory_pooled(void const* memory, std::size_t bytes);
  void memory_taken(void const*, std::size_t) {}
  void memory_returned(void const*, std::size_t) noexcept {}
  void host_uses(MemoryUse const& use);

  /// What the calls so far have taken of the host, waiting included.
  [[nodiscard]] double host_time_ns() const noexcept { return machine_->host_time_ns(); }
  /// How many pieces of work the device has done.
  [[nodiscard]] std::uint64_t executed() const noexcept { return machine_->executed(); }

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
