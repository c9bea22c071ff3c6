// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sim/sim_action.hpp"

#include <msstream/runtime/sim.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace msstream::sim {

/// A call of the host during which a simulated device may run actions.
struct HostCall {
  enum class Kind : std::uint8_t {
    issues,       ///< puts an action on a stream
    synchronize,  ///< continues once `point` is complete
    query,        ///< observes whether `point` is complete
    uses,         ///< reads or writes the bytes of `use`
    ends          ///< ends the simulation: all remaining work runs
  };
  Kind kind;
  Point point{};
  MemoryUse use{};
  /// True if `point` becomes complete exactly when the last action before it on its stream becomes
  /// complete. If false, the search assumes that any action may change whether `point` is complete.
  bool exact = true;
};

/// The candidates for what happens next in a simulation. Candidate i is the first action of
/// `streams[i]`. If `host_can_go_on` is true, there is a last candidate: the host continues.
struct Decision {
  struct Head {
    StreamNumber stream;
    std::uint64_t number;
    Action const* action;
    /// Whether the action may touch memory that the host uses without declaring it. Set only if
    /// watches() returns true.
    bool touches_host;
  };
  std::span<Head const> streams;
  bool host_can_go_on;
  HostCall const& call;

  [[nodiscard]] std::size_t count() const noexcept {
    return streams.size() + (host_can_go_on ? 1 : 0);
  }
};

/// Decides what a simulated device does next, wherever a real device could do different things.
/// Used by one thread only.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule() = default;
  Schedule(Schedule const&) = delete;
  Schedule& operator=(Schedule const&) = delete;

  /// Returns the index of the candidate that happens next. `decision` has at least one candidate.
  virtual std::size_t choose(Decision const& decision) = 0;
  /// Returns whether the device may run actions during a call that only issues work.
  virtual bool moves_while_issuing() { return false; }
  /// Returns whether the cost model determines the order of actions. If true, choose() decides only
  /// between simultaneous actions.
  [[nodiscard]] virtual bool by_time() const noexcept { return false; }

  /// Returns whether the schedule follows each event of the simulation. If true, choose() is called
  /// even for a single candidate, and issued(), completed() and ordered_after() are called.
  [[nodiscard]] virtual bool watches() const noexcept { return false; }
  /// Called when the host has put action number `number` on a stream; the arguments are stream and
  /// number.
  virtual void issued(StreamNumber, std::uint64_t) {}
  /// Called when an action of a stream is complete; the arguments are the stream and the action's
  /// number.
  virtual void completed(StreamNumber, std::uint64_t) {}
  /// Called when a stream has waited for a point of another stream, so that all later actions of
  /// the stream are ordered after the point.
  virtual void ordered_after(StreamNumber, Point) {}
};

/// Returns the text of a schedule, which schedule_from() reads.
[[nodiscard]] std::string written_random(std::uint64_t seed);
[[nodiscard]] std::string written_replay(std::span<std::uint32_t const> choices);

}  // namespace msstream::sim
