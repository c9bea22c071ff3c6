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

/// The time after a launch from which the device is queried whether the launch is complete, because
/// it may have failed. Also the interval between such queries.
inline constexpr std::chrono::milliseconds kOverdue{1};

/// A slot: the buffers for one launch of a replica, and the queries in the launch. A slot goes
/// through these states:
///
///     idle ── claimed ──┬────────────┬── launched ── idle
///                       └── staged ──┴── stranded ── idle
///
/// States: idle: any thread may claim the slot; claimed: the thread that claimed it fills it;
/// staged: a launch thread owns it, if there are such threads; launched: the poller owns it;
/// stranded: the poller owns it, because no part of it could be launched, and `failure` says why.
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

  /// Hands the slot over to the owner that belongs to the new state.
  void become(State next) noexcept { state.store(next, std::memory_order_release); }
  [[nodiscard]] bool is(State wanted) const noexcept {
    return state.load(std::memory_order_acquire) == wanted;
  }

  std::atomic<State> state{State::idle};
  // The members from `place` on start a new cache line, because the poller reads `state` all the
  // time.
  alignas(64) Place place;
  detail::AnyStaging staging;
  std::vector<Ticket> tickets;         ///< tickets of the queries, in the order of their rows
  std::vector<WaitingQuery*> waiting;  ///< queries whose values are not in `staging` yet
  std::int64_t expected_ns = 0;        ///< the time that the slot adds to the replica's load
  std::uint64_t number = 0;            ///< the number of the hand-over, in the order of hand-overs
  /// The number of times that the launch of these queries has failed, on any replica.
  int failed_launches = 0;

  // Members that describe the launch.
  Version* version = nullptr;
  std::uint64_t version_number = 0;
  /// The position of the copy that returns the answers and sets a flag when they have arrived.
  std::optional<order::Position> position = {};
  /// The event after the operation at `position`, or after the work that was issued before the
  /// model threw.
  LaunchEvent event = {};
  std::exception_ptr failure = {};
  Clock::time_point launched_at = {};
  Clock::time_point ask_at = {};  ///< when the device is to be queried next
};

}  // namespace msstream::serve
