// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_search.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace msstream::sim {

namespace {

constexpr Process kHost = 0;

bool contains(std::vector<Process> const& processes, Process process) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

void join(StepClock& clock, StepClock const& other) {
  if (clock.size() < other.size()) {
    clock.resize(other.size());
  }
  for (std::size_t i = 0; i < other.size(); ++i) {
    clock[i] = std::max(clock[i], other[i]);
  }
}

template <class T>
T& grown(std::vector<T>& list, std::size_t index) {
  if (list.size() <= index) {
    list.resize(index + 1);
  }
  return list[index];
}

bool share_bytes(Step const& a, Step const& b) noexcept {
  for (auto const& mine : a.uses) {
    for (auto const& other : b.uses) {
      if (conflict(mine, other)) {
        return true;
      }
    }
  }
  return false;
}

bool host_depends(Step const& host, Step const& work) noexcept {
  if (work.touches_host) {
    return true;
  }
  if (host.call == HostCall::Kind::query) {
    return !host.exact || host.point == work.point;
  }
  return share_bytes(host, work);
}

Step step_of(Decision const& decision, std::size_t candidate) {
  Step step;
  if (candidate == decision.streams.size()) {
    step.process = kHost;
    step.call = decision.call.kind;
    step.point = decision.call.point;
    step.exact = decision.call.exact;
    if (decision.call.kind == HostCall::Kind::uses) {
      step.uses.push_back(decision.call.use);
    }
    return step;
  }
  auto const& head = decision.streams[candidate];
  step.process = head.stream + 1;
  step.point = {head.stream, head.number};
  step.declared = head.action->declared;
  step.touches_host = head.touches_host;
  for (auto const& use : head.action->accesses()) {
    step.uses.push_back(use);
  }
  return step;
}

}  // namespace

bool dependent(Step const& a, Step const& b) noexcept {
  if (a.process == b.process) {
    return true;
  }
  if (a.process == kHost || b.process == kHost) {
    return a.process == kHost ? host_depends(a, b) : host_depends(b, a);
  }
  return !a.declared || !b.declared || share_bytes(a, b);
}

/// A schedule that takes its choices from a Search, and reports all events of one run to it.
class Search::Watcher final : public Schedule {
 public:
  explicit Watcher(Search& search) : search_(search) {}

  std::size_t choose(Decision const& decision) override { return search_.choose(decision); }
  [[nodiscard]] bool watches() const noexcept override { return true; }
  void issued(StreamNumber stream, std::uint64_t) override {
    grown(search_.issued_after_, stream)
        .push_back(static_cast<std::uint32_t>(search_.host_clocks_.size()));
  }
  void completed(StreamNumber stream, std::uint64_t) override {
    grown(search_.completed_, stream).push_back(search_.clock_of(stream + 1));
  }
  void ordered_after(StreamNumber stream, Point point) override {
    if (point.count > 0) {
      join(search_.clock_of(stream + 1), search_.completed_[point.stream][point.count - 1]);
    }
  }

 private:
  Search& search_;
};

void Search::begin_run() {
  kept_ = path_.size();
  repeats_ = false;
  started_ = false;
  steps_.clear();
  choices_.clear();
  clocks_.clear();
  host_clocks_.clear();
  issued_after_.clear();
  completed_.clear();
}

std::unique_ptr<Schedule> Search::schedule() {
  if (std::exchange(started_, true)) {
    throw std::logic_error("explore: the program makes a second simulation; expected one a run");
  }
  return std::make_unique<Watcher>(*this);
}

StepClock& Search::clock_of(Process process) {
  return grown(clocks_, process);
}

std::size_t Search::choose(Decision const& decision) {
  std::size_t chosen = 0;
  std::size_t const place = steps_.size();
  if (place >= path_.size() && !repeats_) {
    add_node(decision);
  }
  candidates_.clear();
  for (std::size_t i = 0; i < decision.count(); ++i) {
    candidates_.push_back(step_of(decision, i));
  }
  if (place < path_.size()) {
    auto const wanted = path_[place].chosen;
    while (chosen < candidates_.size() && candidates_[chosen].process != wanted) {
      ++chosen;
    }
    if (chosen == candidates_.size()) {
      throw std::logic_error(
          "explore: the program did something else when it was run again in the same order");
    }
  }
  if (decision.count() > 1) {
    choices_.push_back(static_cast<std::uint32_t>(chosen));
  }
  if (!repeats_) {
    note_step(candidates_[chosen]);
  }
  return chosen;
}

/// Adds a node to the search tree for the decision. A process that was asleep at the previous node,
/// or had been run there, is also asleep at the new node if its step is independent of the step
/// that was taken.
void Search::add_node(Decision const& decision) {
  Node node{};
  for (auto const& head : decision.streams) {
    node.enabled.push_back(head.stream + 1);
  }
  if (decision.host_can_go_on) {
    node.enabled.push_back(kHost);
  }
  if (reduce_ && !path_.empty()) {
    auto const& last = path_.back();
    for (auto const& other : candidates_) {
      if ((contains(last.asleep, other.process) || contains(last.been_run, other.process)) &&
          !dependent(other, steps_.back())) {
        node.asleep.push_back(other.process);
      }
    }
  }
  auto const awake = std::find_if(node.enabled.begin(), node.enabled.end(), [&](Process process) {
    return !contains(node.asleep, process);
  });
  if (awake == node.enabled.end()) {
    repeats_ = true;
    return;
  }
  node.chosen = *awake;
  node.to_be_run = reduce_ ? std::vector<Process>{node.chosen} : node.enabled;
  path_.push_back(std::move(node));
}

void Search::note_step(Step step) {
  StepClock& own = clock_of(step.process);
  if (step.process == kHost) {
    if (step.call == HostCall::Kind::synchronize && step.point.count > 0) {
      join(own, completed_[step.point.stream][step.point.count - 1]);
    }
  } else {
    auto const host_steps = issued_after_[step.point.stream][step.point.count - 1];
    if (host_steps > 0) {
      join(own, host_clocks_[host_steps - 1]);
    }
  }
  step.before = own;
  for (auto const& earlier : steps_) {
    if (dependent(earlier, step)) {
      join(own, earlier.clock);
    }
  }
  step.index = ++grown(own, step.process);
  step.clock = own;
  if (step.process == kHost) {
    host_clocks_.push_back(own);
  }
  steps_.push_back(std::move(step));
}

bool Search::next_run() {
  if (reduce_) {
    add_branches();
  }
  while (!path_.empty()) {
    auto& node = path_.back();
    node.been_run.push_back(node.chosen);
    auto const next =
        std::find_if(node.to_be_run.begin(), node.to_be_run.end(), [&](Process process) {
          return !contains(node.been_run, process) && !contains(node.asleep, process);
        });
    if (next != node.to_be_run.end()) {
      node.chosen = *next;
      return true;
    }
    path_.pop_back();
  }
  return false;
}

/// Adds a branch to the search for each pair of dependent steps in this run that could also have
/// happened in the opposite order, unless an earlier run has examined the pair.
void Search::add_branches() {
  std::size_t const first_new = kept_ == 0 ? 0 : kept_ - 1;
  for (std::size_t later = first_new; later < steps_.size(); ++later) {
    auto& step = steps_[later];
    StepClock settled = step.before;
    for (std::size_t i = later; i > 0; --i) {
      auto const& earlier = steps_[i - 1];
      bool const is_settled =
          earlier.process < settled.size() && settled[earlier.process] >= earlier.index;
      if (!is_settled && dependent(earlier, step)) {
        add_branch(i - 1, later);
        join(settled, earlier.clock);
      }
    }
  }
}

/// Adds a branch in which step `later` happens before step `earlier`. The branch begins with a
/// process that can run first on the way to `later`.
void Search::add_branch(std::size_t earlier, std::size_t later) {
  std::vector<Step const*> way;
  std::vector<Process> first_movers;
  for (std::size_t i = earlier + 1; i <= later; ++i) {
    auto const& step = steps_[i];
    if (i != later && precedes(steps_[earlier], step)) {
      continue;
    }
    bool const moves_first = std::none_of(way.begin(), way.end(), [&](Step const* other) {
      return other->process == step.process || precedes(*other, step);
    });
    if (moves_first) {
      first_movers.push_back(step.process);
    }
    way.push_back(&step);
  }
  auto& node = path_[earlier];
  for (auto const process : first_movers) {
    if (contains(node.to_be_run, process)) {
      return;
    }
  }
  auto const possible = std::find_if(first_movers.begin(), first_movers.end(), [&](Process p) {
    return contains(node.enabled, p);
  });
  if (possible != first_movers.end()) {
    node.to_be_run.push_back(*possible);
    return;
  }
  // No process on the way can run only if the simulation does not let the host continue, because it
  // has queried too often. Adds all other processes.
  for (auto const process : node.enabled) {
    if (!contains(node.to_be_run, process)) {
      node.to_be_run.push_back(process);
    }
  }
}

}  // namespace msstream::sim
