// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/ledger.hpp>

#include <utility>

namespace msstream::serve {

namespace {

/// What making the exception throws, where it cannot be made.
template <class Make>
std::exception_ptr error_from(Make&& make) noexcept {
  try {
    return std::make_exception_ptr(make());
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void Ledger::refuse(Ticket& ticket, Refused::Reason reason, std::string const& message) noexcept {
  scores.refused.add();
  end(ticket, Outcome(error_from([&] { return Refused(reason, message); })));
}

void Ledger::answer(Ticket& ticket, Answer answer) noexcept {
  scores.answered.add();
  scores.queue_times.record(answer.queued);
  scores.device_times.record(answer.on_device);
  end(ticket, Outcome(std::move(answer)));
}

void Ledger::expire(Ticket& ticket) noexcept {
  scores.expired.add();
  end(ticket, Outcome(error_from([] {
        return DeadlineExceeded("serve: the query's deadline passed before it could be launched");
      })));
}

void Ledger::fail(Ticket& ticket, std::exception_ptr error) noexcept {
  scores.failed.add();
  end(ticket, Outcome(std::move(error)));
}

void Ledger::await_replies() const noexcept {
  for (auto left = without_reply_.load(); left != 0; left = without_reply_.load()) {
    without_reply_.wait(left);
  }
}

void Ledger::end(Ticket& ticket, Outcome outcome) noexcept {
  if (!ticket.reply.give(std::move(outcome))) {
    scores.callbacks_threw.add();
  }
  if (without_reply_.fetch_sub(1) == 1 && closed_.load()) {
    without_reply_.notify_all();
  }
}

}  // namespace msstream::serve
