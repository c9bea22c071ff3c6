// SPDX-License-Identifier: Apache-2.0
#include "serve/ledger.hpp"

#include <utility>

namespace msstream::serve {

namespace {

/// A guard on the calling thread's list of the Ledgers whose callbacks it is running, the innermost
/// first.
struct Replying {
  explicit Replying(Ledger const& of) noexcept
      : ledger(&of), around(std::exchange(innermost, this)) {}
  ~Replying() { innermost = around; }
  Replying(Replying const&) = delete;
  Replying& operator=(Replying const&) = delete;

  Ledger const* ledger;
  Replying* around;
  static thread_local Replying* innermost;
};
thread_local Replying* Replying::innermost = nullptr;

}  // namespace

void Ledger::turn_away(Ticket& ticket) noexcept {
  scores.refused.add();
  reply(ticket, Outcome(Refusals::all().draining));
}

void Ledger::refuse(Ticket& ticket, std::exception_ptr why) noexcept {
  scores.refused.add();
  end(ticket, Outcome(std::move(why)));
}

void Ledger::answer(Ticket& ticket, Answer answer) noexcept {
  scores.answered.add();
  scores.queue_times.record(answer.queued);
  scores.device_times.record(answer.on_device);
  end(ticket, Outcome(std::move(answer)));
}

void Ledger::expire(Ticket& ticket) noexcept {
  scores.expired.add();
  end(ticket, Outcome(Refusals::all().deadline_exceeded));
}

void Ledger::displace(Ticket& ticket) noexcept {
  scores.displaced.add();
  fail(ticket, Refusals::all().displaced);
}

void Ledger::fail(Ticket& ticket, std::exception_ptr error) noexcept {
  scores.failed.add();
  end(ticket, Outcome(std::move(error)));
}

void Ledger::await_replies() const noexcept {
  for (auto state = state_.load(); state != kClosed; state = state_.load()) {
    state_.wait(state);
  }
}

bool Ledger::is_replying() const noexcept {
  auto const* replying = Replying::innermost;
  while (replying != nullptr && replying->ledger != this) {
    replying = replying->around;
  }
  return replying != nullptr;
}

void Ledger::reply(Ticket& ticket, Outcome outcome) noexcept {
  Replying const replying(*this);
  if (!ticket.reply.give(std::move(outcome))) {
    scores.callbacks_threw.add();
  }
}

}  // namespace msstream::serve
