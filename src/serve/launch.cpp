// SPDX-License-Identifier: Apache-2.0
#include "serve/launch.hpp"

#include <msstream/base/error.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <source_location>

namespace msstream::serve {

void Launch::operator()(Slot& slot) noexcept {
  stage_waiting(slot);
  auto& replica = pool_.replicas.of(slot);
  {
    std::lock_guard const one_at_a_time(replica.launching());
    replica.hand_over(slot, launch(slot, replica));
  }
  pool_.bell.ring();
}

void Launch::stage_waiting(Slot& slot) noexcept {
  if (slot.waiting.empty()) {
    return;
  }
  try {
    auto const rows = pool_.buckets.rows(slot.place.bucket);
    std::int64_t used = 0;
    for (auto const& ticket : slot.tickets) {
      used += ticket.rows;
    }
    auto* const values = slot.staging.values(rows, used);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < slot.waiting.size(); ++i) {
      auto const& ticket = slot.tickets[i];
      pool_.layout->repack(
          {slot.waiting[i]->values.data(), ticket.rows_needed, ticket.rows}, values, rows, begin);
      begin += ticket.rows;
    }
    pool_.layout->end_lists(values, rows, begin);
  } catch (...) {
    slot.failure = std::current_exception();
  }
  for (auto* const query : slot.waiting) {
    pool_.queue.release(*query);
  }
  slot.waiting.clear();
}

Launch::State Launch::launch(Slot& slot, Replica& replica) noexcept {
  if (slot.failure != nullptr) {
    return State::launched;  // nothing was issued, so the launch is complete at once
  }
  if (!replica.is_sound()) {
    slot.failure = pool_.replicas.last_failure();
    return State::stranded;
  }
  pool_.ledger.scores.launches.add();
  bool has_issued = false;
  try {
    issue(slot, replica, has_issued);
  } catch (RuntimeError const&) {
    slot.failure = std::current_exception();
    ++slot.failed_launches;
    pool_.replicas.fail(replica, slot.failure);
    return has_issued ? State::launched : State::stranded;
  } catch (...) {
    slot.failure = std::current_exception();
    await_all_issued(slot, replica);
  }
  return State::launched;
}

void Launch::issue(Slot& slot, Replica& replica, bool& has_issued) {
  slot.version = &pool_.versions.acquire();
  slot.version_number = slot.version->value->number();
  detail::AnyStreamScope const scope(replica.group(), {}, std::source_location::current());
  slot.staging.expect_answers();
  slot.launched_at = Clock::now();
  slot.position =
      slot.version->value->launch(slot.place, slot.staging, replica.branches(), has_issued);
  has_issued = true;
  slot.ask_at = slot.launched_at + kOverdue;
  if (pool_.must_be_asked) {  // recorded now, so that it covers no later launch
    slot.event.take(*pool_.context, *slot.position);
  }
}

void Launch::await_all_issued(Slot& slot, Replica& replica) noexcept {
  try {
    slot.event.take_all_of(*replica.group());
    slot.ask_at = {};
  } catch (...) {
    pool_.replicas.fail(replica, std::current_exception());
  }
}

}  // namespace msstream::serve
