// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sim/sim_schedule.hpp"

#include <msstream/base/detail/inline_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace msstream::sim {

/// The number of a process, in the sense of the search: 0 is the host, n + 1 is stream n.
using Process = std::uint32_t;

/// A vector clock: for each process, the number of its steps that precede a step, the step itself
/// included.
using StepClock = std::vector<std::uint32_t>;

/// A step of a simulated run: a stream runs an action, or the host continues from a call.
struct Step {
  Process process = 0;
  HostCall::Kind call = HostCall::Kind::ends;  ///< the kind of call, for a step of the host
  bool declared = true;
  bool touches_host = false;
  bool exact = true;
  Point point{};  ///< the point that the step completes or queries
  msstream::detail::InlineVector<MemoryUse, 4> uses{};
  std::uint32_t index = 0;  ///< the number of the step in its process, from 1
  StepClock before{};       ///< the steps that precede this step in every order
  StepClock clock{};        ///< the steps that precede this step in this run
};

/// Returns whether exchanging the two steps could change the result of the run.
[[nodiscard]] bool dependent(Step const& a, Step const& b) noexcept;

/// Enumerates the orders in which a program's steps can happen, one order per run. The orders form
/// a tree; the search keeps the path to the current one.
class Search {
 public:
  explicit Search(bool reduce) : reduce_(reduce) {}
  Search(Search const&) = delete;
  Search& operator=(Search const&) = delete;

  /// Begins a run. The program's simulation must use the schedule that schedule() returns.
  void begin_run();
  [[nodiscard]] std::unique_ptr<Schedule> schedule();
  /// Ends a run, and selects the next order to try. Returns false if no order is left.
  [[nodiscard]] bool next_run();
  /// Returns whether this run differs from an earlier run only in the order of independent steps.
  [[nodiscard]] bool repeats() const noexcept { return repeats_; }
  /// Returns the choices of this run, which replay() can repeat.
  [[nodiscard]] std::span<std::uint32_t const> choices() const noexcept { return choices_; }

 private:
  class Watcher;

  /// A node on the path of the search: a point in the run at which one of several processes was
  /// chosen.
  struct Node {
    std::vector<Process> enabled;
    std::vector<Process> asleep;  ///< the processes whose next step would only repeat a run
    /// The processes to be tried at this node, including those in `been_run`.
    std::vector<Process> to_be_run;
    std::vector<Process> been_run;
    Process chosen;
  };

  std::size_t choose(Decision const& decision);
  void add_node(Decision const& decision);
  void note_step(Step step);
  void add_branches();
  void add_branch(std::size_t earlier, std::size_t later);
  [[nodiscard]] bool precedes(Step const& first, Step const& second) const noexcept {
    return first.process < second.clock.size() && second.clock[first.process] >= first.index;
  }
  StepClock& clock_of(Process process);

  bool reduce_;
  std::vector<Node> path_;
  std::size_t kept_ = 0;  ///< the number of nodes that come from earlier runs

  // Members that describe the current run.
  bool repeats_ = false;
  bool started_ = false;
  std::vector<Step> steps_;
  std::vector<Step> candidates_;  ///< the candidates of the newest decision
  std::vector<std::uint32_t> choices_;
  std::vector<StepClock> clocks_;       ///< the clock of each process
  std::vector<StepClock> host_clocks_;  ///< the clock after each step of the host
  /// For each action of each stream, the number of host steps before the action was issued.
  std::vector<std::vector<std::uint32_t>> issued_after_;
  /// For each action of each stream, the vector clock at its completion.
  std::vector<std::vector<StepClock>> completed_;
};

}  // namespace msstream::sim
