// SPDX-License-Identifier: Apache-2.0
// The functions of Machine that put actions on streams, and determine their costs and memory uses.
#include "runtime/sim/sim_machine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace msstream::sim {

std::uint64_t SimStream::enqueue(Closure closure) {
  machine_->launch(*this, std::move(closure));
  return issued_;
}

void Machine::begin_operation(SimStream& stream, OperationHandle const& operation) {
  enter();
  stream.operation_ = operation;
  stream.charged_ = false;
}

void Machine::launch(SimStream& stream, Closure closure) {
  push_work(stream, std::move(closure), /*host_function=*/false);
}

void Machine::call_host(SimStream& stream, Closure closure) {
  push_work(stream, std::move(closure), /*host_function=*/true);
}

void Machine::push_work(SimStream& stream, Closure closure, bool host_function) {
  bool const declared = stream.operation_ != nullptr;
  SimCost::Kernel cost{0, 0};
  if (declared && !std::exchange(stream.charged_, true)) {
    cost = cost_.kernel(stream.operation_->name, stream.operation_->uses);
  } else if (!declared && !host_function) {
    cost = cost_.kernel({}, {});
  }
  host_issues(cost.launch_ns.value_or(cost_.launch_call_ns));
  push(stream,
       Action{.kind = Action::Kind::work,
              .declared = declared,
              .host_function = host_function,
              .sms = std::min(cost.sms, cost_.sm_count),
              .device_ns = cost.device_ns,
              .link_ns = cost.link_ns,
              .run = std::move(closure),
              .operation = stream.operation_});
}

void Machine::copy(
    void* to, void const* from, std::size_t bytes, CopyKind kind, SimStream& stream) {
  host_issues(cost_.copy_call_ns);
  push(stream,
       Action{.kind = Action::Kind::copy,
              .engine = kind,
              .device_ns = cost_.copy_ns(kind, static_cast<double>(bytes)),
              .run = [=] { std::memmove(to, from, bytes); },
              .operation = stream.operation_,
              .own_uses = {{to, bytes, AccessMode::write}, {from, bytes, AccessMode::read}},
              .own_use_count = 2});
}

void Machine::fill(void* memory, std::uint8_t value, std::size_t bytes, SimStream& stream) {
  host_issues(cost_.copy_call_ns);
  push(stream,
       Action{.kind = Action::Kind::copy,
              .engine = CopyKind::d2d,
              .device_ns = cost_.copy_ns(CopyKind::d2d, static_cast<double>(bytes) / 2),
              .run = [=] { std::memset(memory, value, bytes); },
              .operation = stream.operation_,
              .own_uses = {{memory, bytes, AccessMode::write}},
              .own_use_count = 1});
}

void Machine::record(SimStream& stream, std::shared_ptr<double> time) {
  host_issues(cost_.record_call_ns);
  if (time != nullptr) {
    push(stream, Action{.kind = Action::Kind::record, .run = [this, kept = std::move(time)] {
                          *kept = device_ns_;
                        }});
  }
}

void Machine::wait(SimStream& stream, Point point) {
  host_issues(cost_.wait_call_ns);
  auto const& target = *streams_[point.stream];
  bool const failed = target.failed_at_ != 0 && target.failed_at_ <= point.count;
  // A schedule that records the order of actions must see each wait, even for a point that is
  // already complete.
  if (point.stream != stream.number_ && (watched_ || failed || !is_complete(point))) {
    push(stream, Action{.kind = Action::Kind::wait, .after = point});
  }
}

void Machine::hold(SimStream& stream, std::shared_ptr<std::atomic<bool>> open) {
  host_issues(cost_.launch_call_ns);
  push(stream, Action{.kind = Action::Kind::hold, .open = std::move(open)});
}

void Machine::host_issues(double call_ns) {
  enter();
  host_ns_ += call_ns;
  if (depth_ > 0) {
    return;
  }
  if (by_time_) {
    pass_time_until(host_ns_, nullptr);
  } else if (!busy_.empty() && schedule_->moves_while_issuing()) {
    let_device_move({.kind = HostCall::Kind::issues});
  }
}

void Machine::push(SimStream& stream, Action&& action) {
  action.issued_at_ns = host_ns_;
  if (stream.queue_.empty()) {
    busy_.insert(std::lower_bound(busy_.begin(), busy_.end(), stream.number_), stream.number_);
  }
  bool const has_effect = action.has_effect();
  stream.queue_.push(std::move(action));
  ++stream.issued_;
  if (has_effect) {
    stream.last_effect_ = stream.issued_;
  }
  if (watched_) {
    schedule_->issued(stream.number_, stream.issued_);
  }
}

}  // namespace msstream::sim
