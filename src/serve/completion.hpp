// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/pool_state.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace msstream::serve {

/// Takes launched slots back, and replies to their queries. Used by the poller only.
class Completion {
 public:
  explicit Completion(PoolState& pool) : pool_(pool) {
    auto const most_queries = static_cast<std::size_t>(pool.buckets.largest());
    tickets_.reserve(most_queries);
    outcomes_.reserve(most_queries);
  }

  /// Returns whether the slot's launch is complete, which its answers show. Querying the device
  /// instead takes a driver call, which waits for the driver calls of launching threads; the device
  /// is therefore queried only if the launch takes long, or if the runtime requires it
  /// (must_be_asked). If the query fails, the slot and its replica fail.
  [[nodiscard]] bool is_over(Slot& slot, Clock::time_point now) noexcept;

  /// Replies to the queries of a slot that is complete, or that no replica can launch. The slot
  /// becomes idle before the first reply is given, so the receiver of the reply can use it at once.
  void finish(Slot& slot) noexcept;

 private:
  struct Interval {
    Clock::time_point begin;
    Clock::time_point end;
  };

  [[nodiscard]] bool has_told(Slot const& slot) const noexcept;
  bool ask(Slot& slot, Clock::time_point now);
  /// Returns the time when the replica began with the launch: when it was launched, or when the
  /// launch before it was complete, whichever is later.
  [[nodiscard]] Clock::time_point begin_of(Slot const& slot) const noexcept;
  /// Notes the launch's time on the device, if it used the newest model.
  void note_time(Slot const& slot, Interval const& on_device) noexcept;

  void make_outcomes(Slot const& slot,
                     std::exception_ptr const& failure,
                     Interval const& on_device) noexcept;
  [[nodiscard]] Outcome outcome(Slot const& slot,
                                Ticket const& ticket,
                                std::size_t begin,
                                std::size_t count,
                                Interval const& on_device) noexcept;
  void reply(Ticket& ticket, Outcome outcome) noexcept;

  PoolState& pool_;
  std::uint64_t newest_version_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<Outcome> outcomes_;
};

}  // namespace msstream::serve
