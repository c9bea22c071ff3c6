// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/inline_vector.hpp>
#include <msstream/runtime/sim_schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace msstream::sim {

/// Who takes a step: 0 is the host, n + 1 is stream n.
using Process = std::uint32_t;

/// How many steps of each process precede a step, itself included.
using StepClock = std::vector<std::uint32_t>;

/// One step of a run: a stream's work, or the host going on from a call.
struct Step {
  Process process = 0;
  HostCall::Kind call = HostCall::Kind::ends;  ///< of the host's
  bool declared = true;
  bool touches_host = false;
  bool exact = true;
  Point point{};  ///< what it completes, or asks for
  InlineVector<MemoryUse, 4> uses{};
  std::uint32_t index = 0;  ///< among the steps of its process, from 1
  StepClock before{};       ///< what precedes it however things go
  StepClock clock{};        ///< what precedes it in this run
};

/// Whether the order of two steps can be told.
[[nodiscard]] bool dependent(Step const& a, Step const& b) noexcept;

/// The orders of a program, one run after the other: a tree of which one path is kept.
class Search {
 public:
  explicit Search(bool reduce) : reduce_(reduce) {}
  Search(Search const&) = delete;
  Search& operator=(Search const&) = delete;

  /// Call before each run; the schedule is for that run.
  void begin_run();
  [[nodiscard]] std::unique_ptr<Schedule> schedule();
  /// Call after each run. False when there is no other order.
  [[nodiscard]] bool next_run();
  /// Whether this run repeats, in another order, one that has been seen.
  [[nodiscard]] bool repeats() const noexcept { return repeats_; }
  /// The choices of this run, for replay().
  [[nodiscard]] std::span<std::uint32_t const> choices() const noexcept { return choices_; }

 private:
  class Watcher;

  /// A place where something was chosen.
  struct Node {
    std::vector<Process> enabled;
    std::vector<Process> asleep;     ///< what would only repeat a run
    std::vector<Process> to_be_run;  ///< with those that have been
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
  std::size_t kept_ = 0;  ///< how many nodes of the path are of earlier runs

  // Of the current run.
  bool repeats_ = false;
  bool started_ = false;
  std::vector<Step> steps_;
  std::vector<Step> candidates_;  ///< of the newest decision
  std::vector<std::uint32_t> choices_;
  std::vector<StepClock> clocks_;                         ///< of each process
  std::vector<StepClock> host_clocks_;                    ///< after each step of the host
  std::vector<std::vector<std::uint32_t>> issued_after_;  ///< how many steps of the host, by action
  std::vector<std::vector<StepClock>> completed_;         ///< by stream and action
};

}  // namespace msstream::sim
