// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim_action.hpp>
#include <msstream/runtime/sim_cost.hpp>
#include <msstream/runtime/sim_load.hpp>
#include <msstream/runtime/sim_memory.hpp>
#include <msstream/runtime/sim_schedule.hpp>
#include <msstream/runtime/work_queue.hpp>

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

/// A stream of a simulation: what it has been given and has not done.
class SimStream final : public WorkQueue {
 public:
  SimStream(Machine& machine, StreamNumber number) : machine_(&machine), number_(number) {}

  /// As a kernel: costs the host a launch.
  std::uint64_t enqueue(Closure closure) override;
  /// All that it has been given so far.
  [[nodiscard]] Point tail() const noexcept { return {number_, issued_}; }

 private:
  friend class Machine;

  Machine* machine_;
  StreamNumber number_;
  bool running_ = false;
  bool charged_ = false;  ///< the current operation's kernel has been paid for
  std::uint64_t issued_ = 0;
  std::uint64_t last_effect_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t failed_at_ = 0;  ///< 0: no work has failed
  std::exception_ptr failure_;
  OperationHandle operation_;
  ActionQueue queue_;
};

/// The host and the device of a simulation: streams, who may go on, and what time it is. One
/// thread; a call from another one throws std::logic_error.
///
/// The device stands still between calls. A call that can see what it has done, or that the
/// schedule wants to interrupt, first lets it move as far as the schedule says.
class Machine {
 public:
  /// `runs_work` false: kernels, copies and fills cost what they cost, and are not done.
  Machine(ScheduleFactory const& schedule, SimCost cost, bool runs_work = true);

  [[nodiscard]] SimStream* create_stream();
  void enter() const;
  void begin_operation(SimStream& stream, OperationHandle const& operation);
  void end_operation(SimStream& stream) noexcept { stream.operation_ = nullptr; }

  void launch(SimStream& stream, Closure closure);
  void call_host(SimStream& stream, Closure closure);
  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, SimStream& stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, SimStream& stream);
  /// `time`, if not null, gets the time at which the stream gets there.
  void record(SimStream& stream, std::shared_ptr<double> time);
  void wait(SimStream& stream, Point point);
  void hold(SimStream& stream, std::shared_ptr<std::atomic<bool>> open);

  /// Throws std::logic_error that says who is blocked by what if the point cannot be reached.
  void synchronize(Point point);
  [[nodiscard]] bool query(Point point);
  void host_uses(MemoryUse const& use);
  /// Runs all that can run. Failures stay with their streams.
  void finish();

  [[nodiscard]] bool is_complete(Point point) const noexcept {
    return streams_[point.stream]->completed_ >= point.count;
  }
  /// Rethrows what the first work up to the point that failed threw.
  void rethrow_failure(Point point) const;
  [[nodiscard]] bool idle() const noexcept { return busy_.empty() && depth_ == 0; }
  [[nodiscard]] double host_time_ns() const noexcept { return host_ns_; }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }

  /// Pinned memory that the host uses without saying so.
  void add_undeclared_host_memory(void const* memory, std::size_t bytes);
  void remove_undeclared_host_memory(void const* memory) noexcept;
  /// Gives memory back to the system as soon as nothing is queued that may use it.
  void release(void* memory, std::size_t bytes) noexcept;

 private:
  void host_issues(double call_ns);
  void push_work(SimStream& stream, Closure closure, bool host_function);
  void push(SimStream& stream, Action&& action);
  void let_device_move(HostCall const& call);
  [[nodiscard]] bool host_can_go_on(HostCall const& call) const noexcept;

  /// Completes what nobody needs to decide on, and lists the streams that have something to do.
  void collect_heads();
  [[nodiscard]] bool goes_by_itself(SimStream const& stream, Action const& action) const noexcept;
  void settle(SimStream& stream, bool& moved);
  void execute(SimStream& stream);
  void complete_front(SimStream& stream);
  void fail(SimStream& stream, std::exception_ptr failure) noexcept;
  [[nodiscard]] bool touches_host(Action const& action) const noexcept;
  [[nodiscard]] std::string deadlock(Point wanted) const;

  // by_time
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
  std::vector<StreamNumber> busy_;  ///< that have something queued, ascending
  std::vector<Decision::Head> heads_;
  std::vector<Point> polled_;  ///< found incomplete since the device last moved
  int depth_ = 0;              ///< how many actions are being run, one inside the other
  std::uint64_t executed_ = 0;
  double host_ns_ = 0;
  double device_ns_ = 0;
  DeviceLoad load_;
  std::vector<StreamNumber> done_;
  std::vector<std::pair<std::byte const*, std::size_t>> undeclared_host_memory_;
};

}  // namespace msstream::sim
