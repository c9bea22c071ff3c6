// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sim/sim_action.hpp"
#include "runtime/sim/sim_load.hpp"
#include "runtime/sim/sim_memory.hpp"
#include "runtime/sim/sim_schedule.hpp"

#include <msstream/runtime/sim.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::sim {

class Machine;

/// A simulated stream: the actions that were issued to it and are not complete yet.
class SimStream final : public detail::WorkQueue {
 public:
  SimStream(Machine& machine, StreamNumber number) : machine_(&machine), number_(number) {}

  /// Enqueues the closure as a kernel, and adds the cost of a launch to the host's virtual time.
  std::uint64_t enqueue(Closure closure) override;
  /// Returns the point after all actions that were issued to the stream so far.
  [[nodiscard]] Point tail() const noexcept { return {number_, issued_}; }

 private:
  friend class Machine;

  Machine* machine_;
  StreamNumber number_;
  bool running_ = false;
  bool charged_ = false;  ///< whether the launch of the current operation was charged
  std::uint64_t issued_ = 0;
  std::uint64_t last_effect_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t failed_at_ = 0;  ///< the number of the first action that failed; 0 if none has
  std::exception_ptr failure_;
  OperationHandle operation_;
  ActionQueue queue_;
};

/// The host and the device of a simulation: the streams, the choice of the action to run next, and
/// the virtual time. Single-threaded: a call from another thread throws std::logic_error.
///
/// The simulated device runs nothing between calls. A call that can observe the device's progress,
/// or that the schedule chooses to interrupt, first runs as many actions as the schedule decides.
class Machine {
 public:
  /// If `runs_work` is false, kernels, copies and fills take virtual time, but are not executed.
  Machine(ScheduleFactory const& schedule, SimCost cost, bool runs_work = true);

  [[nodiscard]] SimStream* create_stream();
  void enter() const;
  void begin_operation(SimStream& stream, OperationHandle const& operation);
  void end_operation(SimStream& stream) noexcept { stream.operation_ = nullptr; }

  void launch(SimStream& stream, Closure closure);
  void call_host(SimStream& stream, Closure closure);
  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, SimStream& stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, SimStream& stream);
  /// Records an event on the stream. Stores the virtual time at which the stream reaches the event
  /// in `*time`, unless `time` is null.
  void record(SimStream& stream, std::shared_ptr<double> time);
  void wait(SimStream& stream, Point point);
  void hold(SimStream& stream, std::shared_ptr<std::atomic<bool>> open);

  /// Waits for the point. If the point can never be reached, throws std::logic_error with a message
  /// that says why each stream is blocked.
  void synchronize(Point point);
  [[nodiscard]] bool query(Point point);
  void host_uses(MemoryUse const& use);
  /// Runs all queued work that can run. Stores failures in their streams instead of throwing them.
  void finish();

  [[nodiscard]] bool is_complete(Point point) const noexcept {
    return streams_[point.stream]->completed_ >= point.count;
  }
  /// Rethrows the exception of the stream's first failed action, if that action is at or before the
  /// point.
  void rethrow_failure(Point point) const;
  [[nodiscard]] bool idle() const noexcept { return busy_.empty() && depth_ == 0; }
  [[nodiscard]] double host_time_ns() const noexcept { return host_ns_; }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }

  /// Adds pinned memory that the host uses without declaring it.
  void add_undeclared_host_memory(void const* memory, std::size_t bytes);
  void remove_undeclared_host_memory(void const* memory) noexcept;
  /// Frees memory as soon as no queued work may use it.
  void release(void* memory, std::size_t bytes) noexcept;

 private:
  void host_issues(double call_ns);
  void push_work(SimStream& stream, Closure closure, bool host_function);
  void push(SimStream& stream, Action&& action);
  void let_device_move(HostCall const& call);
  [[nodiscard]] bool host_can_go_on(HostCall const& call) const noexcept;

  /// Completes all actions that involve no choice, such as waits for complete work, and lists the
  /// first action of each stream that can run next.
  void collect_heads();
  [[nodiscard]] bool goes_by_itself(SimStream const& stream, Action const& action) const noexcept;
  void settle(SimStream& stream, bool& moved);
  void execute(SimStream& stream);
  void complete_front(SimStream& stream);
  void fail(SimStream& stream, std::exception_ptr failure) noexcept;
  [[nodiscard]] bool touches_host(Action const& action) const noexcept;
  [[nodiscard]] std::string deadlock(Point wanted) const;

  // Functions for schedules in which the cost model determines the order of actions.
  void pass_time_until(double until_ns, Point const* wanted);
  void start_heads();
  void execute_one_of(std::vector<StreamNumber>& done);
  [[nodiscard]] double next_issue_ns() const;

  SimCost cost_;
  std::unique_ptr<Schedule> schedule_;
  bool by_time_;
  bool watched_;
  bool runs_work_;
  SimMemory memory_;
  std::thread::id owner_ = std::this_thread::get_id();
  std::vector<std::unique_ptr<SimStream>> streams_;
  std::vector<StreamNumber> busy_;  ///< the streams with queued actions, ascending
  std::vector<Decision::Head> heads_;
  /// The points of failed queries since the device last ran an action.
  std::vector<Point> polled_;
  int depth_ = 0;  ///< the nesting depth of actions that are being run
  std::uint64_t executed_ = 0;
  double host_ns_ = 0;
  double device_ns_ = 0;
  DeviceLoad load_;
  std::vector<StreamNumber> done_;
  std::vector<std::pair<std::byte const*, std::size_t>> undeclared_host_memory_;
};

}  // namespace msstream::sim
