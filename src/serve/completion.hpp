// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/pool_state.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace msstream::serve {

/// Detects that launched slots are complete, replies to their queries, and gives the slots back.
/// Used by the poller thread only.
class Completion {
 public:
  explicit Completion(PoolState& pool) : pool_(pool) {
    auto const most_queries = static_cast<std::size_t>(pool.buckets.largest());
    tickets_.reserve(most_queries);
    outcomes_.reserve(most_queries);
  }

  /// Returns whether the slot's launch is complete, normally by a flag in its pinned memory that
  /// the device sets. A query of the device would be a driver call, which waits for the driver
  /// calls of launching threads, so the device is queried only if the launch takes long or the
  /// runtime requires it (must_be_asked). If the query fails, marks the slot and its replica as
  /// failed.
  [[nodiscard]] bool is_over(Slot& slot, Clock::time_point now) noexcept;

  /// Replies to the queries of a slot that is complete, or that no replica can launch. Makes the
  /// slot idle before the first reply, so that the receiver of the reply can use the slot at once.
  void finish(Slot& slot) noexcept;

 private:
  struct Interval {
    Clock::time_point begin;
    Clock::time_point end;
  };

  [[nodiscard]] bool has_told(Slot const& slot) const noexcept;
  bool ask(Slot& slot, Clock::time_point now);
  /// Returns the time at which the replica began to run the launch: the time of the launch, or of
  /// the completion of the previous launch, whichever is later.
  [[nodiscard]] Clock::time_point begin_of(Slot const& slot) const noexcept;
  /// Adds the launch's device time to the mean of its bucket, if the launch ran the newest model.
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
