// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim_action.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::sim {

/// What the host asks of a simulation when there is something to choose.
struct HostCall {
  enum class Kind : std::uint8_t {
    issues,       ///< puts something on a stream
    synchronize,  ///< goes on once `point` is complete
    query,        ///< sees whether `point` is complete
    uses,         ///< reads or writes the bytes of `use`
    ends          ///< the simulation ends: all that is left runs
  };
  Kind kind;
  Point point{};
  MemoryUse use{};
  /// Whether the point is reached exactly when its last action is done; else, when any action is.
  bool exact = true;
};

/// What can happen next. Candidate number i is the first action of streams[i]; the last one, if
/// host_can_go_on, is that the host goes on.
struct Decision {
  struct Head {
    StreamNumber stream;
    std::uint64_t number;
    Action const* action;
    /// For a schedule that watches: whether it may touch what the host touches without saying so.
    bool touches_host;
  };
  std::span<Head const> streams;
  bool host_can_go_on;
  HostCall const& call;

  [[nodiscard]] std::size_t count() const noexcept {
    return streams.size() + (host_can_go_on ? 1 : 0);
  }
};

/// Decides what a simulated device does next, wherever a real one could do one thing or another.
/// Used on one thread.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule() = default;
  Schedule(Schedule const&) = delete;
  Schedule& operator=(Schedule const&) = delete;

  /// The number of the candidate that happens next; there is at least one.
  virtual std::size_t choose(Decision const& decision) = 0;
  /// Whether to decide also before a call that only issues work goes on; else nothing moves then.
  virtual bool moves_while_issuing() { return false; }
  /// Whether the cost model decides what happens when; choose() then only breaks ties.
  [[nodiscard]] virtual bool by_time() const noexcept { return false; }

  /// Whether it wants to choose also where there is one candidate, and to be told the following.
  [[nodiscard]] virtual bool watches() const noexcept { return false; }
  /// The host has put an action of that number on the stream.
  virtual void issued(StreamNumber, std::uint64_t) {}
  /// The stream's action of that number is over.
  virtual void completed(StreamNumber, std::uint64_t) {}
  /// What the stream does from here on comes after the point.
  virtual void ordered_after(StreamNumber, Point) {}
};

/// Makes the schedule of one simulation; the same one every time.
using ScheduleFactory = std::function<std::unique_ptr<Schedule>()>;

/// Any legal order, chosen by the seed.
[[nodiscard]] ScheduleFactory random(std::uint64_t seed);
/// The given choices, then always the first candidate. Throws std::invalid_argument, from the call
/// in question, for a choice that the program does not have.
[[nodiscard]] ScheduleFactory replay(std::vector<std::uint32_t> choices);
/// The order that the cost model gives; what it leaves open is chosen by the seed.
[[nodiscard]] ScheduleFactory by_time(std::uint64_t seed = 1);

/// From how the explorer prints a schedule: "random:17", "replay:0.2.1", "by_time:1". Throws
/// std::invalid_argument for anything else.
[[nodiscard]] ScheduleFactory schedule_from(std::string_view written);
/// What MSSTREAM_SIM_SCHEDULE says, else random(1).
[[nodiscard]] ScheduleFactory schedule_from_environment();

/// How schedule_from() reads it.
[[nodiscard]] std::string written_random(std::uint64_t seed);
[[nodiscard]] std::string written_replay(std::span<std::uint32_t const> choices);

}  // namespace msstream::sim
