// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/launch_event.hpp"
#include "serve/model_version.hpp"
#include "serve/published.hpp"
#include "serve/query_queue.hpp"
#include "serve/ticket.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The time after which the device is queried whether a launch is complete, because it may have
/// failed, and the interval of the queries from then on.
inline constexpr std::chrono::milliseconds kOverdue{1};

/// The buffers for one launch of a replica, and the tickets of the queries in them.
///
///     idle ── claimed ──┬────────────┬── launched ── idle
///                       └── staged ──┴── stranded ── idle
///
/// States: idle: the replica can give it away; claimed: the thread that claimed it fills it;
/// staged: a launch thread has it, if there are such threads; launched: the poller has it;
/// stranded: the poller has it, because no part of it could be launched, and `failure` says why.
/// Ownership: `state` says which thread owns all other members. Memory ordering: a thread that
/// hands the slot over stores the state with release, and the thread that takes it loads the state
/// with acquire.
struct Slot {
  enum class State : std::uint8_t { idle, claimed, staged, launched, stranded };
  using Version = Published<ModelVersion>::Entry;

  Slot(Place at, detail::AnyStaging buffers, std::size_t most_queries)
      : place(at), staging(std::move(buffers)) {
    tickets.reserve(most_queries);
    waiting.reserve(most_queries);
  }

  /// Hands the slot over to the owner that the new state says.
  void become(State next) noexcept { state.store(next, std::memory_order_release); }
  [[nodiscard]] bool is(State wanted) const noexcept {
    return state.load(std::memory_order_acquire) == wanted;
  }

  std::atomic<State> state{State::idle};
  // Members from here on start a new cache line, because the poller reads `state` all the time.
  alignas(64) Place place;
  detail::AnyStaging staging;
  std::vector<Ticket> tickets;         ///< the tickets of the queries, in the order of their rows
  std::vector<WaitingQuery*> waiting;  ///< the tickets' values, if they are not in `staging`
  std::int64_t expected_ns = 0;        ///< the time that the slot adds to the replica's load
  std::uint64_t number = 0;            ///< the order in which the replica's slots were handed over
  int failed_launches = 0;  ///< how often the launch of these queries has failed, on any replica

  // The state of the launch.
  Version* version = nullptr;
  std::uint64_t version_number = 0;
  /// The position of the copy of the answers, which sets a flag when they have arrived.
  std::optional<order::Position> position = {};
  /// The event of `position`, or of the work that was issued before the model threw.
  LaunchEvent event = {};
  std::exception_ptr failure = {};
  Clock::time_point launched_at = {};
  Clock::time_point ask_at = {};  ///< when the device is to be queried
};

}  // namespace msstream::serve
