// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/refusals.hpp"
#include "serve/scoreboard.hpp"
#include "serve/ticket.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

namespace msstream::serve {

/// Ensures that each query of a pool gets exactly one reply, counts the replies by kind, and lets
/// threads wait until all queries have their replies.
///
/// States: open; closed permanently, when no query is admitted any more. Thread-safe, without a
/// lock; only the reply itself allocates. Memory ordering: the state and the count of queries that
/// have begun and not ended are one sequentially consistent number, so await_replies() waits for
/// the queries that began before close(), and for no later ones. Counters are raised before the
/// reply that they count is given.
class Ledger {
 public:
  Ledger() { static_cast<void>(Refusals::all()); }  // allocates the refusals now

  /// Registers a new query, whose reply one of refuse(), answer(), expire(), displace() and fail()
  /// must give. Returns false if the pool is closed; the caller must then call turn_away() instead.
  [[nodiscard]] bool begin() noexcept {
    if ((state_.load() & kClosed) != 0) {
      return false;
    }
    if ((state_.fetch_add(kOne) & kClosed) == 0) {
      return true;
    }
    leave();
    return false;
  }
  void turn_away(Ticket& ticket) noexcept;
  void admit() noexcept { scores.admitted.add(); }

  void refuse(Ticket& ticket, std::exception_ptr why) noexcept;
  void answer(Ticket& ticket, Answer answer) noexcept;
  void expire(Ticket& ticket) noexcept;
  void displace(Ticket& ticket) noexcept;
  void fail(Ticket& ticket, std::exception_ptr error) noexcept;

  void close() noexcept { state_.fetch_or(kClosed); }
  [[nodiscard]] bool is_closed() const noexcept { return (state_.load() & kClosed) != 0; }
  /// Blocks until every registered query has its reply. Call close() before.
  void await_replies() const noexcept;
  /// Returns whether the calling thread is running a callback of this pool.
  [[nodiscard]] bool is_replying() const noexcept;

  Scoreboard scores;

 private:
  static constexpr std::uint64_t kClosed = 1;
  static constexpr std::uint64_t kOne = 2;

  void reply(Ticket& ticket, Outcome outcome) noexcept;
  void end(Ticket& ticket, Outcome outcome) noexcept {
    reply(ticket, std::move(outcome));
    leave();
  }
  void leave() noexcept {
    if (state_.fetch_sub(kOne) == (kOne | kClosed)) {
      state_.notify_all();
    }
  }

  std::atomic<std::uint64_t> state_{0};
};

}  // namespace msstream::serve
