// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/scoreboard.hpp>
#include <msstream/serve/ticket.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

namespace msstream::serve {

/// Sees to it that each query gets one reply, counts which, and knows when all have one.
///
/// States: open; closed, for ever, when nothing is admitted any more. Thread-safe, without a lock.
/// Memory ordering: the count of queries without a reply and the state are sequentially consistent:
/// a query that has not seen the pool closed is among those that await_replies() waits for. Counts
/// are raised before the reply that they count is given.
class Ledger {
 public:
  /// The beginning of every query, whose end is one of those below. False: the pool is closed.
  [[nodiscard]] bool begin() noexcept {
    without_reply_.fetch_add(1);
    return !closed_.load();
  }
  void admit() noexcept { scores.admitted.add(); }

  void refuse(Ticket& ticket, Refused::Reason reason, std::string const& message) noexcept;
  void answer(Ticket& ticket, Answer answer) noexcept;
  void expire(Ticket& ticket) noexcept;
  void fail(Ticket& ticket, std::exception_ptr error) noexcept;

  void close() noexcept { closed_.store(true); }
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(); }
  /// Blocks until every query has its reply; after close().
  void await_replies() const noexcept;

  Scoreboard scores;

 private:
  void end(Ticket& ticket, Outcome outcome) noexcept;

  std::atomic<std::uint64_t> without_reply_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace msstream::serve
