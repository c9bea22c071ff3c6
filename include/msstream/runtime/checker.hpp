// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// The kinds of findings of a checking runtime.
enum class CheckKind : std::uint8_t {
  /// Two accesses to the same bytes, at least one a write, of which neither is ordered before the
  /// other.
  race,
  use_after_free,  ///< a use of memory that its allocator holds and has not given out
  early_reuse,     ///< memory given out or freed while the device may still use it
  /// A copy or fill that is part of an operation, and accesses memory in a way that the operation
  /// does not declare.
  undeclared_use,
  unwritten_read,   ///< a read of memory of which no byte was written since it was given out
  unrecorded_wait,  ///< a wait for an event that was never recorded: it orders nothing
  dead_event,       ///< a use of an event that was destroyed
  /// A use of pinned memory by the host before it has seen the device's accesses complete.
  host_race,
  pageable_copy,  ///< a copy from or to host memory that is not pinned: it blocks the host
  copy_overlap,   ///< a copy between two overlapping ranges
  implicit_sync,  ///< a call inside a stream scope that makes all streams wait for each other
  leak,           ///< a stream, event or allocation that still exists at the end
};
/// Returns the name of a kind, such as "race".
[[nodiscard]] std::string_view name_of(CheckKind kind) noexcept;
/// All kinds, in their order.
inline constexpr std::array kCheckKinds = {CheckKind::race,
                                           CheckKind::use_after_free,
                                           CheckKind::early_reuse,
                                           CheckKind::undeclared_use,
                                           CheckKind::unwritten_read,
                                           CheckKind::unrecorded_wait,
                                           CheckKind::dead_event,
                                           CheckKind::host_race,
                                           CheckKind::pageable_copy,
                                           CheckKind::copy_overlap,
                                           CheckKind::implicit_sync,
                                           CheckKind::leak};

/// A finding, and the number of times that it was made.
struct CheckReport {
  /// A memory access of an operation or of the host: one of the two that a finding is about.
  struct Access {
    std::string operation;  ///< the operation's name, prefixed by the enclosing name scopes
    std::string lane;       ///< the name of the stream, such as "group 2 h2d"
    AccessMode mode;        ///< read, write or accumulate
    std::uintptr_t begin;   ///< address of the first byte
    std::size_t bytes;      ///< their number, from `begin`
    std::source_location issued_at;        ///< the line of the program that issued it
    std::source_location scope_opened_at;  ///< line 0 if the access is outside all scopes

    [[nodiscard]] std::string text() const;  ///< Returns the access as lines for people.
  };

  CheckKind kind;                ///< of the finding
  std::string message;           ///< a sentence that describes the finding
  std::optional<Access> first;   ///< the access that was issued first
  std::optional<Access> second;  ///< the access at which the problem was found
  /// The change to the program that would prevent the finding.
  std::string missing;
  std::uint64_t times = 1;  ///< how often it was made, from 1

  /// Returns the finding as lines for people: both accesses, and what is missing.
  [[nodiscard]] std::string text() const;
  /// Returns whether both reports have the same kind and the same operations, streams, access modes
  /// and issue locations. If neither has an access, compares the messages instead.
  [[nodiscard]] bool same_as(CheckReport const& other) const noexcept;
};

/// Returns `{"reports": […]}`, with the fields of CheckReport and CheckReport::Access. The lane of
/// an access is called "stream".
[[nodiscard]] std::string json_of(std::vector<CheckReport> const& reports);

/// The exception that a checking runtime throws at a finding if its mode is CheckMode::throw_error.
class RaceError : public std::logic_error {
 public:
  /// Makes the error, whose message is the text of the report.
  explicit RaceError(CheckReport report)
      : std::logic_error(report.text()), report_(std::move(report)) {}
  /// Returns the finding.
  [[nodiscard]] CheckReport const& report() const noexcept { return report_; }

 private:
  CheckReport report_;
};

namespace detail {
class CapturedParts;
}  // namespace detail

/// The reaction of a Checker to a finding: throws RaceError at the call that made it, writes it to
/// stderr and continues, or only keeps and counts it.
enum class CheckMode : std::uint8_t { throw_error, log, count };

struct CheckerOptions {
  /// The reaction to a finding, by default that of MSSTREAM_CHECK_MODE.
  CheckMode mode = env::choice(
      "MSSTREAM_CHECK_MODE",
      CheckMode::throw_error,
      {{"throw", CheckMode::throw_error}, {"log", CheckMode::log}, {"count", CheckMode::count}});
  /// The file to which the findings are written as JSON when the checker is destroyed. Empty: no
  /// file is written.
  std::string report_path = std::string(env::value_of("MSSTREAM_CHECK_REPORT"));
  /// A function that is called for each finding that does not repeat an earlier one, on the thread
  /// that made the finding.
  std::function<void(CheckReport const&)> on_report = {};
  /// The maximum number of different findings that are kept. Further findings are only counted.
  std::size_t most_reports = 100;
};

/// Follows the happens-before order of streams, and reports accesses to memory that are not
/// ordered, uses of memory outside its lifetime, and calls that synchronise implicitly.
///
/// Keeps two sets of vector clocks, independent of the tracker's. The clocks "as issued" follow the
/// order that the program requests: what it declares to issue(), and the waits of its streams and
/// of the host, in the order of its calls. Races of the program are found with these clocks, so
/// findings do not depend on when a launch thread or the device executes the work. The clocks "as
/// launched" follow only the calls that a runtime receives. They reveal a tracker that does not
/// keep the order that it has promised; the tracker's own clocks are never consulted.
///
/// All host threads count as one: if one of them has waited for work, all of them have. Handles of
/// streams, events and graphs are passed as numbers. Devices that order work between each other
/// must share a checker. Thread-safe, with a single lock, because a checker is a debugging tool.
class Checker {
 public:
  using Handle = std::uintptr_t;  ///< a handle of a stream, event or graph, by handle_of()

  explicit Checker(CheckerOptions options = {});  ///< Makes a checker without findings.
  /// Reports the streams, events and memory that still exist, and writes the report file, if any.
  ~Checker();
  Checker(Checker const&) = delete;
  Checker& operator=(Checker const&) = delete;

  /// Returns the different findings so far, oldest first.
  [[nodiscard]] std::vector<CheckReport> reports() const;
  /// Returns the number of findings so far, repetitions included.
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::uint64_t count(CheckKind kind) const;
  /// Returns json_of() all findings so far.
  [[nodiscard]] std::string json() const { return json_of(reports()); }
  /// Drops the findings so far, and their counts.
  void clear();
  /// Reports the streams, events and memory that are not released yet.
  void report_leaks() noexcept;
  /// Returns the number of findings of all checkers of the process that were made where no
  /// exception may be thrown, such as in destructors. Such findings go to stderr, except in the
  /// mode `count`. A test that must find nothing checks this number as well.
  [[nodiscard]] static std::uint64_t quiet_findings() noexcept;
  /// Writes the findings to CheckerOptions::report_path, if set, together with those of all other
  /// checkers that write to that file.
  void write_report() const noexcept;

  // Functions of the checker that a checking runtime calls. If the order relative to the runtime's
  // own call matters, one function is called before that call and another one after it.

  void stream_created(Handle stream);  ///< Follows the stream from now on.
  /// Forgets the stream; its handle may come again.
  void stream_destroyed(Handle stream) noexcept;
  void event_created(Handle event);             ///< Follows the event from now on.
  void event_destroyed(Handle event) noexcept;  ///< Reports later uses of the event.

  void stream_named(Handle stream, std::string_view name);

  /// The set of all work that precedes a point in the program, as two vector clocks. Callers only
  /// pass it on.
  struct Moment {
    std::vector<std::uint64_t> clock;   ///< the vector clock of launched work
    std::vector<std::uint64_t> issued;  ///< the vector clock of issued work
    /// The capture in which the stream or event is, or null.
    std::shared_ptr<detail::CapturedParts> capture = nullptr;
  };
  /// The party on whose behalf a call waits for work or queries it. `program`: the program relies
  /// on the result from then on. `tracker`: the dependency tracker keeps an order that it has
  /// promised, or looks for complete work, and the program must not rely on the result.
  enum class Account : std::uint8_t { program, tracker };
  /// Returns the clocks of all work on the stream so far.
  [[nodiscard]] Moment tail_of(Handle stream);
  /// Returns the vector clocks of the work that the event covers. `call` names the calling function
  /// in a report. If the event was destroyed, reports that and returns null; the caller must then
  /// not pass the event to the runtime.
  [[nodiscard]] std::optional<Moment> moment_of(Handle event, std::string_view call);
  /// Returns the vector clocks of the work that the event covers, for a wait by the stream. Reports
  /// an event that was destroyed, and then returns null, or that was never recorded.
  [[nodiscard]] std::optional<Moment> waitable_moment_of(Handle event, Handle stream);
  /// Makes the event cover the moment, and nothing else.
  void recorded(Handle event, Moment moment);
  /// Orders all later work of the stream after the moment.
  void waited(Handle stream, Moment const& moment, Account of = Account::program);
  /// Orders all later calls of the host after the moment, which it knows to be complete.
  void host_saw(Moment const& moment, Account of = Account::program);

  // Functions of the checker that the dependency tracker calls. The checker derives nothing from
  // the tracker's positions except the order in which they are passed.

  /// Checks an operation at the time when it gets its position in the tracker's order and is
  /// ordered after the positions in `order.needed`. tell() publishes the findings. Returns false if
  /// the operation must not continue.
  [[nodiscard]] bool reserve(OperationHandle const& operation,
                             Handle stream,
                             TrackedOrder const& order);
  /// Publishes the findings that reserve() or end_foreign_work() made for the operation. Findings
  /// of reserve() are thrown if the mode is CheckMode::throw_error.
  void tell(Operation const& operation);
  /// Assigns all work on the stream so far to the position.
  void mark(Handle stream, void const* tracker, order::Position position);
  /// Records that all work of the position has been launched.
  void launched(void const* tracker, order::Position position) noexcept;
  /// Orders everything issued to the stream from now on after the positions in `needed`.
  void follow(Handle stream, void const* tracker, std::span<order::Position const> needed);
  /// Records that the host has waited for the work of the position.
  void host_follows(void const* tracker, order::Position position);

  /// Checks that the memory that the operation declares is allocated and, if the operation reads
  /// it, was written. Stores the number of the memory's allocation in each declared use.
  void declare(Operation& operation);
  /// Begins the launch of an operation on the stream: what is put on it until end() is its work.
  void begin(OperationHandle const& operation, Handle stream);
  /// Ends the launch of the operation that begin() named last for the stream.
  void end(Handle stream, Outcome outcome) noexcept;
  /// Records that the operation is not launched and has written nothing. Called instead of begin()
  /// and end(), or after a begin() that threw.
  void give_up(Operation const& operation) noexcept;
  /// Begins a period in which work that bypasses issue(), such as work beside a TensorHolder, is
  /// put on the stream and may use the operation's memory.
  void begin_foreign_work(OperationHandle const& operation, Handle stream);
  /// Ends the period, begun by begin_foreign_work(), in which work that bypasses issue() may use
  /// the operation's memory. tell() publishes the findings.
  void end_foreign_work(OperationHandle const& operation, Handle stream);
  /// Begins a copy or a fill. If an operation is being launched on the stream, the copy is part of
  /// that operation, and the result is null. Otherwise returns a new operation, to be passed to
  /// end_transfer().
  [[nodiscard]] OperationHandle begin_transfer(std::string_view name,
                                               std::vector<MemoryUse> uses,
                                               Handle stream);
  /// Ends the copy or fill that begin_transfer() returned; does nothing for null.
  void end_transfer(OperationHandle const& transfer, Handle stream, Outcome outcome) noexcept;
  /// Reports a copy from or to host memory that is not pinned.
  void pageable_copy(std::string_view name, void const* host_memory, Handle stream);
  /// Reports a copy of `bytes` > 0 between two different addresses if the two ranges share bytes.
  void copies(
      std::string_view name, void const* to, void const* from, std::size_t bytes, Handle stream);
  /// Returns whether all these bytes are pinned memory.
  [[nodiscard]] bool is_pinned(void const* memory, std::size_t bytes) const;

  // Functions of the checker for captures. A stream joins a capture by waiting for an event that
  // was recorded in it.

  void capture_began(Handle origin);           ///< Begins a capture whose first stream is `origin`.
  void capture_ended(Handle origin) noexcept;  ///< Ends the capture that began on `origin`.
  /// Ends the capture that began on the stream `origin`, and stores the captured operations as the
  /// parts of the graph.
  void graph_made(Handle origin, Handle graph);
  void graph_destroyed(Handle graph) noexcept;  ///< Forgets the operations of the graph.
  /// Returns the operations that were captured into the graph. Null if the graph was made by code
  /// that the checker does not observe.
  [[nodiscard]] OperationParts parts_of(Handle graph) const;
  /// Begins a graph launch that bypasses issue(), as a new operation to be passed to
  /// end_transfer(). Returns null if the operation that is being launched on the stream was issued
  /// for the graph launch, or if the graph was made by code that the checker does not observe.
  [[nodiscard]] OperationHandle begin_launch(Handle graph, Handle stream);

  /// The kind of memory: of the device, or pinned memory of the host.
  enum class Space : std::uint8_t { device, pinned };
  /// Follows memory that the runtime has allocated.
  void allocated(void const* memory, std::size_t bytes, Space space);
  /// Reports work that may still use the memory.
  void freed(void const* memory, std::size_t bytes) noexcept;
  /// Records that the same device memory is mapped at both addresses now.
  void moved(void const* to, void const* from, std::size_t bytes);
  /// Says that an allocator holds the memory, and has not given it out.
  void pooled(void const* memory, std::size_t bytes);
  /// Says that the allocator has given out the memory: its contents are unwritten.
  void taken(void const* memory, std::size_t bytes);
  /// Says that the memory is the allocator's again: later uses are reported.
  void returned(void const* memory, std::size_t bytes) noexcept;
  void host_uses(MemoryUse const& use);

  /// Reports a call that makes streams wait for each other, or blocks the host until all streams
  /// are idle.
  void implicit_sync(std::string_view call) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msstream
