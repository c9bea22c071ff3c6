// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_machine.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace msstream::sim {

namespace {

/// The number of times that the host may query an incomplete point while the device has work that
/// it can run. Further queries force the device to run work.
constexpr std::ptrdiff_t kPatience = 2;

}  // namespace

Machine::Machine(ScheduleFactory const& schedule, SimCost cost, bool runs_work)
    : cost_(std::move(cost)),
      schedule_(schedule()),
      by_time_(schedule_->by_time()),
      watched_(schedule_->watches()),
      runs_work_(runs_work),
      load_(cost_.sm_count) {}

SimStream* Machine::create_stream() {
  enter();
  auto const number = static_cast<StreamNumber>(streams_.size());
  return streams_.emplace_back(std::make_unique<SimStream>(*this, number)).get();
}

void Machine::enter() const {
  if (std::this_thread::get_id() != owner_) [[unlikely]] {
    throw std::logic_error(
        "simulation: called from a second thread; everything happens on the thread that made it, "
        "so a pool cannot have launch threads");
  }
}

void Machine::rethrow_failure(Point point) const {
  auto const& stream = *streams_[point.stream];
  if (stream.failed_at_ != 0 && stream.failed_at_ <= point.count) {
    std::rethrow_exception(stream.failure_);
  }
}

void Machine::synchronize(Point point) {
  enter();
  if (by_time_) {
    pass_time_until(std::numeric_limits<double>::infinity(), &point);
  } else {
    let_device_move({.kind = HostCall::Kind::synchronize, .point = point});
  }
  host_ns_ = std::max(host_ns_, device_ns_);
  if (!is_complete(point)) {
    throw std::logic_error(deadlock(point));
  }
  rethrow_failure(point);
}

bool Machine::query(Point point) {
  enter();
  host_ns_ += cost_.query_call_ns;
  if (by_time_) {
    pass_time_until(host_ns_, nullptr);
  } else {
    let_device_move({.kind = HostCall::Kind::query,
                     .point = point,
                     .exact = streams_[point.stream]->last_effect_ == point.count});
  }
  if (!is_complete(point)) {
    polled_.push_back(point);
    return false;
  }
  rethrow_failure(point);
  return true;
}

void Machine::host_uses(MemoryUse const& use) {
  enter();
  if (by_time_) {
    pass_time_until(host_ns_, nullptr);
  } else {
    let_device_move({.kind = HostCall::Kind::uses, .use = use});
  }
}

void Machine::finish() {
  if (by_time_) {
    pass_time_until(std::numeric_limits<double>::infinity(), nullptr);
  } else {
    let_device_move({.kind = HostCall::Kind::ends});
  }
}

bool Machine::host_can_go_on(HostCall const& call) const noexcept {
  switch (call.kind) {
    case HostCall::Kind::ends:
      return false;
    case HostCall::Kind::synchronize:
      return is_complete(call.point);
    case HostCall::Kind::query:
      return is_complete(call.point) || heads_.empty() ||
             std::count(polled_.begin(), polled_.end(), call.point) < kPatience;
    case HostCall::Kind::issues:
    case HostCall::Kind::uses:
      break;
  }
  return true;
}

void Machine::let_device_move(HostCall const& call) {
  while (true) {
    collect_heads();
    bool const can_go_on = host_can_go_on(call);
    Decision const decision{heads_, can_go_on, call};
    if (decision.count() == 0) {
      return;
    }
    // While an action runs, the schedule has already chosen the order: the device only runs what
    // the call needs.
    std::size_t chosen = can_go_on ? heads_.size() : 0;
    if (depth_ == 0 && (watched_ || decision.count() > 1)) {
      chosen = schedule_->choose(decision);
    }
    if (chosen == heads_.size()) {
      return;
    }
    execute(*streams_[heads_[chosen].stream]);
  }
}

void Machine::collect_heads() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto const number : busy_) {
      settle(*streams_[number], moved);
    }
    std::erase_if(busy_, [&](StreamNumber number) { return streams_[number]->queue_.empty(); });
  }
  heads_.clear();
  for (auto const number : busy_) {
    auto const& stream = *streams_[number];
    auto const& front = stream.queue_.front();
    if (!stream.running_ && front.has_effect()) {
      heads_.push_back({number, stream.completed_ + 1, &front, watched_ && touches_host(front)});
    }
  }
}

bool Machine::goes_by_itself(SimStream const& stream, Action const& action) const noexcept {
  if (stream.running_) {
    return false;
  }
  switch (action.kind) {
    case Action::Kind::record:
      return !by_time_ || action.issued_at_ns <= device_ns_;
    case Action::Kind::wait:
      return is_complete(action.after);
    case Action::Kind::hold:
      return action.open->load();
    case Action::Kind::work:
    case Action::Kind::copy:
      break;
  }
  return false;
}

void Machine::settle(SimStream& stream, bool& moved) {
  while (!stream.queue_.empty() && goes_by_itself(stream, stream.queue_.front())) {
    Action action = stream.queue_.pop();
    if (action.kind == Action::Kind::record) {
      device_ns_ = std::max(device_ns_, action.issued_at_ns);
      action.run();
    } else if (action.kind == Action::Kind::wait) {
      auto const& target = *streams_[action.after.stream];
      if (target.failed_at_ != 0 && target.failed_at_ <= action.after.count) {
        fail(stream, target.failure_);
      }
      if (watched_) {
        schedule_->ordered_after(stream.number_, action.after);
      }
    }
    complete_front(stream);
    moved = true;
  }
}

void Machine::execute(SimStream& stream) {
  stream.running_ = true;
  ++depth_;
  {
    Action action = stream.queue_.pop();
    if (stream.queue_.empty()) {
      std::erase(busy_, stream.number_);
    }
    if (!by_time_) {
      device_ns_ = std::max(device_ns_, action.issued_at_ns) + action.device_ns;
    }
    try {
      // Destroys the closure before its action is marked as complete, because code that has waited
      // for the work may expect that everything the closure owned has been released.
      Closure run = std::move(action.run);
      if (runs_work_ || action.host_function) {
        run();
      }
    } catch (...) {
      fail(stream, std::current_exception());
    }
  }
  --depth_;
  stream.running_ = false;
  ++executed_;
  polled_.clear();
  complete_front(stream);
}

void Machine::complete_front(SimStream& stream) {
  ++stream.completed_;
  if (watched_) {
    schedule_->completed(stream.number_, stream.completed_);
  }
}

void Machine::fail(SimStream& stream, std::exception_ptr failure) noexcept {
  if (stream.failed_at_ == 0) {
    stream.failed_at_ = stream.completed_ + 1;
    stream.failure_ = std::move(failure);
  }
}

void Machine::add_undeclared_host_memory(void const* memory, std::size_t bytes) {
  undeclared_host_memory_.emplace_back(static_cast<std::byte const*>(memory), bytes);
}

void Machine::remove_undeclared_host_memory(void const* memory) noexcept {
  std::erase_if(undeclared_host_memory_, [&](auto const& range) { return range.first == memory; });
}

void Machine::release(void* memory, std::size_t bytes) noexcept {
  try {
    host_uses({memory, bytes, AccessMode::write});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a schedule that does not fit throws again
  }
  if (idle()) {
    memory_.release_kept();
    SimMemory::release(memory, bytes);
  } else {
    if (runs_work_) {
      SimMemory::fill_with_garbage(memory, bytes);
    }
    memory_.keep(memory, bytes);
  }
}

bool Machine::touches_host(Action const& action) const noexcept {
  if (!action.declared) {
    return true;
  }
  for (auto const& use : action.accesses()) {
    for (auto const& [begin, bytes] : undeclared_host_memory_) {
      if (conflict(use, {begin, bytes, AccessMode::write})) {
        return true;
      }
    }
  }
  return false;
}

std::string Machine::deadlock(Point wanted) const {
  std::string out =
      fmt::format("simulation: the host waits for {}, which cannot happen", to_string(wanted));
  for (auto const& owned : streams_) {
    auto const& stream = *owned;
    if (stream.running_) {
      out += fmt::format("; stream {} runs the work that asks", stream.number_);
    }
    if (stream.running_ || stream.queue_.empty()) {
      continue;
    }
    auto const& front = stream.queue_.front();
    out += fmt::format("; stream {}", stream.number_);
    if (front.kind == Action::Kind::wait) {
      out += fmt::format(" waits for {}", to_string(front.after));
    } else {
      out += " is held";
    }
    out += fmt::format(" with {} actions to come", stream.queue_.size());
  }
  return out;
}

}  // namespace msstream::sim
