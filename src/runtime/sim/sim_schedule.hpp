// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sim/sim_action.hpp"

#include <msstream/runtime/sim.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace msstream::sim {

/// The call in which the host lets a simulated device advance.
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
  /// Whether the point becomes complete exactly when its last action does. If false, any action may
  /// make it complete.
  bool exact = true;
};

/// The candidates for what happens next. Candidate number i is the first action of streams[i]. If
/// host_can_go_on is true, the last candidate is that the host continues.
struct Decision {
  struct Head {
    StreamNumber stream;
    std::uint64_t number;
    Action const* action;
    /// Whether the action may touch memory that the host uses without declaring it. Set only for a
    /// schedule that watches.
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
/// Used on one thread.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule() = default;
  Schedule(Schedule const&) = delete;
  Schedule& operator=(Schedule const&) = delete;

  /// Returns the number of the candidate that happens next. There is at least one candidate.
  virtual std::size_t choose(Decision const& decision) = 0;
  /// Returns whether the device may advance before a call that only issues work continues. If
  /// false, the device stands still in such a call.
  virtual bool moves_while_issuing() { return false; }
  /// Returns whether the cost model decides what happens when. If true, choose() only breaks ties.
  [[nodiscard]] virtual bool by_time() const noexcept { return false; }

  /// Returns whether choose() is called even for a single candidate, and issued(), completed() and
  /// ordered_after() are called at all.
  [[nodiscard]] virtual bool watches() const noexcept { return false; }
  /// Called when the host has put the action with that number on the stream.
  virtual void issued(StreamNumber, std::uint64_t) {}
  /// Called when the stream's action with that number is complete.
  virtual void completed(StreamNumber, std::uint64_t) {}
  /// Called when all later actions of the stream have become ordered after the point.
  virtual void ordered_after(StreamNumber, Point) {}
};

/// Returns the schedule as text that schedule_from() reads.
[[nodiscard]] std::string written_random(std::uint64_t seed);
[[nodiscard]] std::string written_replay(std::span<std::uint32_t const> choices);

}  // namespace msstream::sim
