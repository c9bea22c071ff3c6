// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/model_version.hpp>
#include <msstream/serve/published.hpp>
#include <msstream/serve/query_queue.hpp>
#include <msstream/serve/ticket.hpp>
#include <msstream/stream/event.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace msstream::serve {

/// After so long the device is asked whether a launch is over, and from then on as often: it may
/// have failed.
inline constexpr std::chrono::milliseconds kOverdue{1};

/// A place for one launch of a replica: its buffers, and whose queries are in them.
///
///     idle ── claimed ──┬────────────┬── launched ── idle
///                       └── staged ──┴── stranded ── idle
///
/// States: idle: the replica has it to give away; claimed: the thread that claimed it fills it;
/// staged: it is its launch thread's, where there are such; launched: the poller's; stranded, when
/// nothing of it could be launched: the poller's, too, and `failure` says why. Ownership:
/// everything but `state` is that of whose the state says. Memory ordering: a state is stored with
/// release by who hands the slot over, and loaded with acquire by who takes it.
template <Runtime R>
struct Slot {
  enum class State : std::uint8_t { idle, claimed, staged, launched, stranded };
  using Version = typename Published<ModelVersion<R>>::Entry;

  Slot(Place at, Staging<R> buffers, std::size_t most_queries)
      : place(at), staging(std::move(buffers)) {
    tickets.reserve(most_queries);
    waiting.reserve(most_queries);
  }

  /// Hands it over.
  void become(State next) noexcept { state.store(next, std::memory_order_release); }
  [[nodiscard]] bool is(State wanted) const noexcept {
    return state.load(std::memory_order_acquire) == wanted;
  }

  std::atomic<State> state{State::idle};
  // What the poller looks at all the time is not on the line of what others write.
  alignas(64) Place place;
  Staging<R> staging;
  std::vector<Ticket> tickets;         ///< in the order of their rows
  std::vector<WaitingQuery*> waiting;  ///< where the tickets' values are, if not in `staging`
  std::int64_t expected_ns = 0;        ///< what it adds to the replica's load
  std::uint64_t number = 0;  ///< of the replica's slots that are staged, or launched, the first one
                             ///< has the least
  int failed_launches = 0;   ///< of these queries, on this replica and others

  // Of the launch.
  Version* version = nullptr;
  std::uint64_t version_number = 0;
  std::optional<order::Position> position = {};  ///< of its answers, which tell when they are there
  std::optional<Event<R>> event =
      {};  ///< of the same, or of what was issued before the model threw
  std::exception_ptr failure = {};
  Clock::time_point launched_at = {};
  Clock::time_point ask_at = {};  ///< when the device is asked whether it is over
};

}  // namespace msstream::serve
