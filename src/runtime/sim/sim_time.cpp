// SPDX-License-Identifier: Apache-2.0
// The functions of Machine for schedules in which the cost model determines the order of actions.
#include "runtime/sim/sim_machine.hpp"

#include <algorithm>
#include <limits>

namespace msstream::sim {

void Machine::pass_time_until(double until_ns, Point const* wanted) {
  if (depth_ > 0) {
    return;  // time stands still while an action executes
  }
  while (true) {
    start_heads();
    if (wanted != nullptr && is_complete(*wanted)) {
      return;
    }
    // Keeps the remaining time in addition to the time of completion, because a late time has few
    // significant bits left for fractions in floating point.
    double const done_in_ns = load_.next_done_in_ns();
    double const done_ns = device_ns_ + done_in_ns;
    double const next_ns = std::min(done_ns, next_issue_ns());
    double const stop_ns = std::min(next_ns, until_ns);
    if (stop_ns == std::numeric_limits<double>::infinity()) {
      return;
    }
    done_.clear();
    load_.pass(stop_ns == done_ns ? done_in_ns : std::max(0.0, stop_ns - device_ns_), done_);
    device_ns_ = std::max(device_ns_, stop_ns);
    while (!done_.empty()) {
      execute_one_of(done_);
    }
    if (next_ns > until_ns) {
      return;
    }
  }
}

/// Runs one of the actions that are done at the same virtual time. The schedule chooses which one.
void Machine::execute_one_of(std::vector<StreamNumber>& done) {
  std::size_t chosen = 0;
  if (done.size() > 1) {
    std::sort(done.begin(), done.end());
    heads_.clear();
    for (auto const number : done) {
      auto const& stream = *streams_[number];
      heads_.push_back({number, stream.completed_ + 1, &stream.queue_.front(), false});
    }
    HostCall const call{.kind = HostCall::Kind::issues};
    chosen = schedule_->choose({heads_, false, call});
  }
  auto const number = done[chosen];
  done.erase(done.begin() + static_cast<std::ptrdiff_t>(chosen));
  execute(*streams_[number]);
}

void Machine::start_heads() {
  collect_heads();
  std::erase_if(heads_,
                [this](auto const& head) { return head.action->issued_at_ns > device_ns_; });
  while (!heads_.empty()) {
    std::size_t chosen = 0;
    if (heads_.size() > 1) {
      HostCall const call{.kind = HostCall::Kind::issues};
      chosen = schedule_->choose({heads_, false, call});
    }
    auto const head = heads_[chosen];
    heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(chosen));
    streams_[head.stream]->running_ = true;
    if (head.action->kind == Action::Kind::copy) {
      load_.start_copy(head.stream, head.action->engine, head.action->device_ns);
    } else if (head.action->link_ns) {
      load_.start_collective(
          head.stream, head.action->device_ns, *head.action->link_ns, head.action->sms);
    } else {
      load_.start_kernel(head.stream, head.action->device_ns, head.action->sms);
    }
  }
}

/// Returns the virtual time at which the device receives the next action that it could start at
/// once; infinity if there is none.
double Machine::next_issue_ns() const {
  double next_ns = std::numeric_limits<double>::infinity();
  for (auto const number : busy_) {
    auto const& stream = *streams_[number];
    double const issued_at_ns = stream.queue_.front().issued_at_ns;
    if (!stream.running_ && issued_at_ns > device_ns_) {
      next_ns = std::min(next_ns, issued_at_ns);
    }
  }
  return next_ns;
}

}  // namespace msstream::sim
