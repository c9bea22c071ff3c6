// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/check_report.hpp>
#include <msstream/runtime/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

namespace detail {
class CapturedParts;
}  // namespace detail

/// What is done about a finding: throw RaceError where it is made; write it to stderr and go on;
/// or count it alone.
enum class CheckMode : std::uint8_t { throw_error, log, count };

struct CheckerOptions {
  CheckMode mode = env::choice(
      "MSSTREAM_CHECK_MODE",
      CheckMode::throw_error,
      {{"throw", CheckMode::throw_error}, {"log", CheckMode::log}, {"count", CheckMode::count}});
  /// Where the findings are written as JSON when the checker goes; empty: nowhere.
  std::string report_path = std::string(env::value_of("MSSTREAM_CHECK_REPORT"));
  /// Called for each finding that is the first of its kind, on the thread that made it.
  std::function<void(CheckReport const&)> on_report = {};
  /// How many different findings are kept; the others are counted.
  std::size_t most_reports = 100;
};

/// Follows what happens before what on streams, and reports accesses to memory that are not
/// ordered, memory used out of turn, and calls that synchronise.
///
/// Happens-before is followed by vector clocks of its own, twice. As issued: what the program has
/// put before what, through what it names to issue(), the waits of its streams and of the host, in
/// the order of its calls. Races of the program are found there, so they do not depend on when a
/// launch thread or the device gets to what. As launched: from nothing but the calls that a runtime
/// gets. There the tracker is found not to keep what it has promised; its clocks are not asked.
/// Host threads count as one: what one of them has waited for, all of them have. Handles of
/// streams, events and graphs are given as numbers. Devices that order work between them must share
/// a checker. Thread-safe, with one lock: it is for finding mistakes.
class Checker {
 public:
  using Handle = std::uintptr_t;

  explicit Checker(CheckerOptions options = {});
  /// Reports what is left: streams, events, memory.
  ~Checker();
  Checker(Checker const&) = delete;
  Checker& operator=(Checker const&) = delete;

  /// Different findings so far, oldest first.
  [[nodiscard]] std::vector<CheckReport> reports() const;
  /// All findings so far, repetitions included.
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::uint64_t count(CheckKind kind) const;
  [[nodiscard]] std::string json() const { return json_of(reports()); }
  /// Forgets the findings so far.
  void clear();
  /// Reports what has not been given back by now: streams, events, memory.
  void report_leaks() noexcept;
  /// How many findings of all checkers of the process were made where nothing may be thrown, such
  /// as in destructors, and went to stderr in whichever mode. A test that must find nothing asks
  /// here.
  [[nodiscard]] static std::uint64_t quiet_findings() noexcept;
  /// Writes CheckerOptions::report_path, if set, with what other checkers have written there.
  void write_report() const noexcept;

  // What the runtime says. Calls come in pairs around the runtime's own call where the order
  // between the two matters.

  void stream_created(Handle stream);
  void stream_destroyed(Handle stream) noexcept;
  void event_created(Handle event);
  void event_destroyed(Handle event) noexcept;

  void stream_named(Handle stream, std::string_view name);

  /// All that precedes a place in the program; opaque.
  struct Moment {
    std::vector<std::uint64_t> clock;                          ///< as launched
    std::vector<std::uint64_t> issued;                         ///< as issued
    std::shared_ptr<detail::CapturedParts> capture = nullptr;  ///< that it is a moment of
  };
  /// Whose a call is that waits or asks: the program relies on what it has learnt so, and has said
  /// so; the tracker does what it has promised before, or looks what is over.
  enum class Account : std::uint8_t { program, tracker };
  [[nodiscard]] Moment tail_of(Handle stream);
  /// What the event stands for, asked by `call`. Empty: the event is gone, and the runtime must not
  /// be asked about it.
  [[nodiscard]] std::optional<Moment> moment_of(Handle event, std::string_view call);
  /// The same for a wait by the stream, for which the event must have been recorded, too.
  [[nodiscard]] std::optional<Moment> waitable_moment_of(Handle event, Handle stream);
  void recorded(Handle event, Moment moment);
  void waited(Handle stream, Moment const& moment, Account of = Account::program);
  void host_saw(Moment const& moment, Account of = Account::program);

  // What the tracker says, whose positions mean nothing but the order in which they are told.

  /// Called where the operation gets its position, after which it follows `needed`: judges it. What
  /// is found is told by tell(). False: it is not to go on.
  [[nodiscard]] bool reserve(OperationHandle const& operation,
                             Handle stream,
                             TrackedOrder const& order);
  /// Tells what reserve() has found, and throws where that is to; or what end_foreign_work() has.
  void tell(Operation const& operation);
  /// The position stands for all that is on the stream by now.
  void mark(Handle stream, void const* tracker, order::Position position);
  /// Nothing more is launched for the position.
  void launched(void const* tracker, order::Position position) noexcept;
  /// What is issued to the stream from now on follows these.
  void follow(Handle stream, void const* tracker, std::span<order::Position const> needed);
  /// The host has waited for the position.
  void host_follows(void const* tracker, order::Position position);

  /// Checks that the memory named is in use, and notes in `operation` whose it is.
  void declare(Operation& operation);
  void begin(OperationHandle const& operation, Handle stream);
  void end(Handle stream, Outcome outcome) noexcept;
  /// Instead of both, or after a begin that threw: the operation has written nothing.
  void give_up(Operation const& operation) noexcept;
  /// Between the two, work is put on the stream past issue() that may use the memory.
  void begin_foreign_work(OperationHandle const& operation, Handle stream);
  /// What is found is told by tell().
  void end_foreign_work(OperationHandle const& operation, Handle stream);
  /// A copy or a fill; part of the operation that is under way on the stream, if there is one. Else
  /// an operation of its own, for the end.
  [[nodiscard]] OperationHandle begin_transfer(std::string_view name,
                                               std::vector<MemoryUse> uses,
                                               Handle stream);
  void end_transfer(OperationHandle const& transfer, Handle stream, Outcome outcome) noexcept;
  void pageable_copy(std::string_view name, void const* host_memory, Handle stream);
  /// A copy of `bytes`, more than 0, between two different addresses; reported where both ranges
  /// share bytes.
  void copies(
      std::string_view name, void const* to, void const* from, std::size_t bytes, Handle stream);
  [[nodiscard]] bool is_pinned(void const* memory, std::size_t bytes) const;

  // Captures: streams join with the events that they wait for.

  void capture_began(Handle origin);
  void capture_ended(Handle origin) noexcept;
  /// The capture that began on the stream has become a graph; ends it.
  void graph_made(Handle origin, Handle graph);
  void graph_destroyed(Handle graph) noexcept;
  /// What the graph is made of; null: it was made elsewhere.
  [[nodiscard]] OperationParts parts_of(Handle graph) const;
  /// A launch past issue(): an operation of its own, unless it is what the stream's one is for.
  [[nodiscard]] OperationHandle begin_launch(Handle graph, Handle stream);

  enum class Space : std::uint8_t { device, pinned };
  void allocated(void const* memory, std::size_t bytes, Space space);
  void freed(void const* memory, std::size_t bytes) noexcept;
  /// Device memory that is behind both addresses now.
  void moved(void const* to, void const* from, std::size_t bytes);
  void pooled(void const* memory, std::size_t bytes);
  void taken(void const* memory, std::size_t bytes);
  void returned(void const* memory, std::size_t bytes) noexcept;
  void host_uses(MemoryUse const& use);

  /// A call that makes streams wait for each other or blocks the host for all of them.
  void implicit_sync(std::string_view call) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msstream
