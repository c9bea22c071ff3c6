// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "access_history.hpp"
#include "described_access.hpp"
#include "finding_log.hpp"
#include "happens_before.hpp"
#include "issued_work.hpp"
#include "memory_ledger.hpp"
#include "tracked_lines.hpp"

#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Calls `visit(part, use)` for each use of memory that the operation declares: with a null `part`
/// for its own uses, and, if the operation replays a graph, with the captured operation as `part`
/// for the uses of each captured operation.
template <class Visit>
void for_each_use(Operation const& operation, Visit&& visit) {
  for (auto const& use : operation.uses) {
    visit(OperationHandle(), use);
  }
  if (operation.parts != nullptr) {
    for (auto const& part : *operation.parts) {
      for (auto const& use : part->uses) {
        visit(part, use);
      }
    }
  }
}

/// The operations of a capture. The checker checks them among themselves during the capture, as if
/// nothing else ran, and again at each launch of the captured graph, as its parts.
class CapturedParts {
 public:
  AccessHistory history;
  std::vector<OperationHandle> operations;
  bool is_over = false;
};

}  // namespace msstream::detail

namespace msstream {

/// The state of a checker, and the checks that it makes.
///
/// When work is issued, the checker verifies the order that the program must provide. It assumes
/// that an operation follows all work that the dependency tracker has promised to wait for
/// (TrackedLines), all work that its stream and the host have waited for, and all earlier work on
/// its stream. When the work is launched, the checker verifies with the runtime's calls that the
/// promises are kept: all work that the operation follows must have been launched, and waited for.
/// An order that the tracker or an allocator must provide, and not the program, is checked only at
/// the launch.
struct Checker::State {
  using Interval = detail::Interval;
  using IssuedWork = detail::IssuedWork;
  using MemoryLedger = detail::MemoryLedger;
  using PastAccess = detail::PastAccess;
  using Place = detail::Place;
  using Stream = detail::HappensBefore::Stream;
  using Work = std::shared_ptr<IssuedWork>;

  explicit State(CheckerOptions options) : log(std::move(options)) {}

  /// Locks the state. Throws std::logic_error in a child of fork().
  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    home.require_here();
    return std::unique_lock(mutex);
  }
  /// Returns the log. Throws std::logic_error in a child of fork().
  [[nodiscard]] detail::FindingLog& log_here() {
    home.require_here();
    return log;
  }
  /// Locks the state, for functions that must not throw. Returns a lock that owns nothing in a
  /// child of fork(), in which the function has nothing to do.
  [[nodiscard]] std::unique_lock<std::mutex> lock_if_here() const noexcept {
    return home.is_left() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
  }

  /// The work of other code on a stream, between begin_foreign_work() and end_foreign_work(). The
  /// checker does not know what the work does; it may use the declared memory at any time in
  /// between.
  struct Hold {
    Work work;
    std::size_t stream_index;
    /// The capture of the stream. Null outside captures. Work of a capture does not run, so it
    /// conflicts only with other work of that capture.
    detail::CapturedParts const* capture;
  };

  [[nodiscard]] static std::string name_of(Handle handle, Stream const& stream) {
    return stream.lane.empty() ? lane_of(handle) : stream.lane;
  }

  /// Finds uses of memory that is not allocated, and reads of memory for which no write was issued
  /// before. Stores the memory's current owner in each use.
  void find_misuse(Operation const& operation,
                   std::vector<MemoryUse>& uses,
                   std::vector<CheckReport>& found) {
    for (auto& use : uses) {
      auto const range = detail::interval_of(use);
      auto const* const part = memory.part_at(range);
      use.owner = part != nullptr ? part->owner : 0;
      if (part != nullptr && part->holder == MemoryLedger::Holder::pool) {
        found.push_back({CheckKind::use_after_free,
                         fmt::format("'{}' uses memory that was given back, or never given out",
                                     operation.name),
                         std::nullopt,
                         detail::describe(operation, use.mode, range),
                         "the memory must be held until the operation is issued"});
      } else if (use.mode != AccessMode::write && memory.is_unwritten(range) &&
                 !memory.was_given_up(range)) {
        tell_unwritten(
            operation,
            use,
            fmt::format("' {} memory that nothing has written", detail::verb_of(use.mode)),
            fmt::format("an operation that writes it, issued before '{}'", operation.name),
            found);
      }
    }
  }
  void note_issued(Operation const& operation) {
    for (auto const& use : operation.uses) {
      if (use.mode == AccessMode::write) {
        memory.write_issued(detail::interval_of(use));
      }
    }
  }
  /// Notes that an issued operation has been launched, or never will be.
  void note_outcome(Operation const& operation, Outcome outcome) {
    for (auto const& use : operation.uses) {
      if (use.mode == AccessMode::write && is_still_of(use)) {
        memory.write_ended(detail::interval_of(use), outcome);
      }
    }
  }
  /// Finds reads of memory whose first write was issued and then not launched. Called when all
  /// operations that `operation` follows have been launched or given up.
  void find_reads_of_what_was_given_up(Operation const& operation,
                                       std::vector<CheckReport>& found) {
    for (auto const& use : operation.uses) {
      auto const range = detail::interval_of(use);
      if (use.mode != AccessMode::write &&
          memory.is_unwritten(range, writes_inside(operation, range)) && is_still_of(use)) {
        tell_unwritten(operation,
                       use,
                       "' reads memory whose first write failed, or was left out",
                       fmt::format("'{}' must not be launched when what it follows has failed",
                                   operation.name),
                       found);
      }
    }
  }
  void tell_unwritten(Operation const& operation,
                      MemoryUse const& use,
                      std::string_view what,
                      std::string missing,
                      std::vector<CheckReport>& found) {
    auto const range = detail::interval_of(use);
    found.push_back({CheckKind::unwritten_read,
                     fmt::format("'{}{}", operation.name, what),
                     std::nullopt,
                     detail::describe(operation, use.mode, range),
                     std::move(missing)});
    memory.written(range);  // reports the unwritten memory only once
  }
  [[nodiscard]] static std::uint32_t writes_inside(Operation const& operation,
                                                   detail::Interval range) {
    std::uint32_t count = 0;
    for (auto const& use : operation.uses) {
      if (use.mode == AccessMode::write && detail::interval_of(use).overlaps(range)) {
        ++count;
      }
    }
    return count;
  }
  /// Returns whether the memory of the use still has the owner that it had when the use was
  /// declared.
  [[nodiscard]] bool is_still_of(MemoryUse const& use) {
    auto const* const part = memory.part_at(detail::interval_of(use));
    return part != nullptr && part->owner == use.owner;
  }
  /// Assigns the memory uses of a copy or fill to the operation that makes it. Removes the uses
  /// that the operation has declared: they were checked when the operation was issued, and their
  /// memory may have another owner by now. Keeps undeclared uses, and reports those of an
  /// allocator's memory.
  void adopt(Operation const& operation,
             std::vector<MemoryUse>& uses,
             std::vector<CheckReport>& found) {
    std::erase_if(uses, [&](MemoryUse& use) {
      auto const range = detail::interval_of(use);
      if (auto const* const named = detail::declared_use_of(operation, range); named != nullptr) {
        use.owner = named->owner;
        if (use.mode == AccessMode::write && named->mode == AccessMode::read) {
          found.push_back(
              undeclared(operation, use, "' writes memory that it names in reads() only"));
          return false;
        }
        return true;
      }
      auto const* const part = memory.part_at(range);
      use.owner = part != nullptr ? part->owner : 0;
      if (part != nullptr && part->holder != MemoryLedger::Holder::runtime_user) {
        found.push_back(
            undeclared(operation, use, "' uses an allocator's memory that it does not name"));
      }
      if (use.mode == AccessMode::write) {
        memory.written(range);
      }
      return false;
    });
  }
  static CheckReport undeclared(Operation const& operation,
                                MemoryUse const& use,
                                char const* what) {
    return {CheckKind::undeclared_use,
            fmt::format("'{}{}, so nothing orders it", operation.name, what),
            std::nullopt,
            detail::describe(operation, use.mode, detail::interval_of(use)),
            use.mode == AccessMode::read ? "it must be among the reads() of the operation"
                                         : "it must be among the writes() of the operation"};
  }
  /// Returns whether the operation must not run, because there are findings and the checker throws
  /// them.
  [[nodiscard]] bool stops(std::vector<CheckReport> const& found) const {
    return log.throws() && !found.empty();
  }

  /// Creates the record of the next piece of work on the stream. The work follows all that its
  /// stream and the host have waited for.
  [[nodiscard]] Work next_work(OperationHandle operation, Handle handle, Stream& stream) {
    auto const place = order.next_place(stream);
    auto lane = operation->lane.empty() ? name_of(handle, stream) : operation->lane;
    return std::make_shared<IssuedWork>(IssuedWork{
        std::move(operation), std::move(lane), place, stream.issue_clock.share(), ++sequence});
  }
  /// Reports conflicting earlier accesses that the program has not ordered before the work. Adds
  /// all other conflicting accesses to `work.follows`, for the check at the launch.
  void judge_issue(IssuedWork& work, Stream const& stream, std::vector<CheckReport>& found) {
    std::vector<IssuedWork const*> told;
    detail::for_each_use(*work.operation, [&](OperationHandle const& part, MemoryUse const& use) {
      judge_issue(work, part, use, history_of(stream), [&](CheckReport report, auto& past) {
        // Reports a conflict with a graph only once for all its parts, because either all parts
        // follow the other work, or none does.
        if (part == nullptr || std::find(told.begin(), told.end(), &past) == told.end()) {
          told.push_back(&past);
          found.push_back(std::move(report));
        }
      });
    });
  }
  /// Checks one use of memory by issued work. Returns whether work that was issued later has
  /// already used the memory.
  template <class Tell>
  bool judge_issue(IssuedWork& work,
                   OperationHandle const& part,
                   MemoryUse const& use,
                   detail::AccessHistory& accesses,
                   Tell&& tell) {
    bool is_late = false;
    accesses.for_each_conflict(
        detail::interval_of(use), use.mode, [&](PastAccess const& past, Interval where) {
          if (past.by.get() == &work || past.by->state == IssuedWork::State::given_up) {
            return;
          }
          if (past.by->sequence > work.sequence && past.by->is_issued_after(work)) {
            is_late = true;
            return;
          }
          bool const is_reused = past.owner != use.owner && past.owner != 0 && use.owner != 0;
          bool const by_program = !is_reused && !(past.tracked && use.tracked);
          if (by_program && !work.is_issued_after(*past.by)) {
            tell(race(work, part, use, past, where), *past.by);
          } else {
            work.follows.push_back({past, where, part, use});
          }
        });
    return is_late;
  }
  /// Finds work that must come before `work`, and has not been launched, or not been waited for.
  void judge_launch(IssuedWork& work, Stream& stream, std::vector<CheckReport>& found) {
    order.launch_next(stream);
    for (auto const& [past, where, part, use] : std::exchange(work.follows, {})) {
      if (past.by->state != IssuedWork::State::given_up &&
          !detail::HappensBefore::is_launched_before(past.by->place, stream)) {
        found.push_back(race(work, part, use, past, where));
      }
    }
  }
  /// Records the work as the newest of its stream, and records its accesses. The accesses of
  /// captured work are recorded in the capture, for the check of each launch of the graph.
  void note(Work const& work, Stream& stream) {
    stream.issued = work->place.number;
    detail::for_each_use(*work->operation, [&](OperationHandle const& part, MemoryUse const& use) {
      history_of(stream).note(detail::interval_of(use), access(work, part, use));
    });
    if (stream.capture != nullptr) {
      stream.capture->operations.push_back(work->operation);
    }
  }
  [[nodiscard]] static PastAccess access(Work const& work,
                                         OperationHandle const& part,
                                         MemoryUse const& use) {
    return {work, part, use.mode, use.owner, use.tracked};
  }
  [[nodiscard]] detail::AccessHistory& history_of(Stream const& stream) {
    return stream.capture != nullptr ? stream.capture->history : history;
  }
  [[nodiscard]] static detail::CapturedParts const* capture_of(Stream const& stream) noexcept {
    return stream.capture.get();
  }

  static CheckReport race(IssuedWork const& work,
                          OperationHandle const& part,
                          MemoryUse const& use,
                          PastAccess const& past,
                          Interval where) {
    auto const range = detail::interval_of(use);
    Interval const both{std::max(range.begin, where.begin), std::min(range.end, where.end)};
    bool const reused = past.owner != use.owner && past.owner != 0 && use.owner != 0;
    auto const name = detail::name_of(*work.operation, part);
    auto const past_name = detail::name_of(past);
    return {
        CheckKind::race,
        fmt::format("'{}' {} memory that '{}' {}{}",
                    name,
                    detail::verb_of(use.mode),
                    past_name,
                    detail::past_verb(past.mode),
                    reused ? "; the memory was given back and out again in between" : ""),
        detail::describe(past, both),
        detail::describe(work, part, use.mode, both),
        fmt::format(
            "{} must wait for '{}' on {} before '{}'", work.lane, past_name, past.by->lane, name)};
  }

  /// Finds operations that write memory held by a TensorHolder, on streams that the holder does not
  /// cover.
  void find_writes_of_held_memory(IssuedWork const& work,
                                  Stream const& stream,
                                  std::vector<CheckReport>& found) const {
    if (holds.empty()) {
      return;
    }
    std::vector<IssuedWork const*> told;
    detail::for_each_use(*work.operation, [&](OperationHandle const& part, MemoryUse const& use) {
      for (auto const& hold : holds) {
        bool const is_told = std::find(told.begin(), told.end(), hold.work.get()) != told.end();
        if (use.mode != AccessMode::read && hold.stream_index != stream.index &&
            hold.capture == capture_of(stream) && !is_told) {
          find_overlap(work, part, use, hold, found);
          if (part != nullptr && !found.empty()) {
            told.push_back(hold.work.get());
          }
        }
      }
    });
  }
  /// Finds two TensorHolders of the same memory that may both write it, on two streams, unless the
  /// later holder's stream has waited for the earlier holder's stream since the earlier hold began.
  void find_other_holders(Work const& work,
                          Stream const& stream,
                          std::vector<CheckReport>& found) const {
    for (auto const& hold : holds) {
      for (auto const& use : work->operation->uses) {
        if (use.mode != AccessMode::read && hold.work->operation != work->operation &&
            hold.stream_index != stream.index && hold.capture == capture_of(stream) &&
            !work->is_issued_after(*hold.work) &&
            hold.work->operation->uses.front().mode != AccessMode::read) {
          find_overlap(*work, nullptr, use, hold, found);
        }
      }
    }
  }
  static void find_overlap(IssuedWork const& work,
                           OperationHandle const& part,
                           MemoryUse const& use,
                           Hold const& hold,
                           std::vector<CheckReport>& found) {
    for (auto const& held : hold.work->operation->uses) {
      auto const range = detail::interval_of(held);
      if (range.overlaps(detail::interval_of(use))) {
        auto report =
            race(work, part, use, {hold.work, nullptr, held.mode, use.owner, true}, range);
        report.missing = fmt::format("the TensorHolder on {} must be released before '{}' on {}",
                                     hold.work->lane,
                                     detail::name_of(*work.operation, part),
                                     work.lane);
        found.push_back(std::move(report));
      }
    }
  }
  /// Finds copies and fills that were not part of an operation, and that wrote a TensorHolder's
  /// memory on another stream while it was held. Copies that only read the memory are allowed, as
  /// are operations that only read it.
  void find_copies_beside(Hold const& hold,
                          IssuedWork const& end,
                          detail::AccessHistory& accesses,
                          std::vector<CheckReport>& found) {
    for (auto const& held : hold.work->operation->uses) {
      auto const range = detail::interval_of(held);
      accesses.for_each_conflict(
          range, AccessMode::read, [&](PastAccess const& past, Interval where) {
            bool const was_beside =
                past.by->past_issue && past.by->sequence > hold.work->sequence &&
                !past.by->is_issued_after(*hold.work) && !end.is_issued_after(*past.by);
            if (was_beside && !holds_on(*hold.work->operation, past.by->place.index)) {
              auto report = race(*past.by,
                                 past.part,
                                 // NOLINTNEXTLINE(performance-no-int-to-ptr): kept as a number
                                 {reinterpret_cast<void const*>(where.begin),
                                  where.end - where.begin,
                                  past.mode,
                                  past.owner},
                                 {hold.work, nullptr, held.mode, past.owner, true},
                                 range);
              found.push_back(std::move(report));
            }
          });
    }
  }
  /// Returns whether the operation also holds its memory on the stream with the given index.
  [[nodiscard]] bool holds_on(Operation const& operation, std::size_t stream_index) const {
    return std::any_of(holds.begin(), holds.end(), [&](Hold const& hold) {
      return hold.work->operation.get() == &operation && hold.stream_index == stream_index;
    });
  }

  /// Calls `visit` for each access that conflicts with a use of the range in `mode`, and that is
  /// not complete according to `is_over(access)`.
  template <class Over, class Visit>
  void for_each_in_flight(Interval range, AccessMode mode, Over&& is_over, Visit&& visit) {
    history.for_each_conflict(range, mode, [&](PastAccess const& past, Interval where) {
      if (past.by->state != IssuedWork::State::given_up && !is_over(past)) {
        visit(past, where);
      }
    });
  }
  /// The party that frees memory: an allocator, which may query the runtime for completed work, or
  /// the program, which must have waited for all work that uses the memory.
  enum class FreedBy : bool { program, allocator };
  void find_early_reuse(Interval range,
                        FreedBy by,
                        char const* what,
                        std::vector<CheckReport>& found) {
    for_each_in_flight(
        range,
        AccessMode::write,
        [&](PastAccess const& past) {
          return by == FreedBy::allocator ? order.host_knows(past.by->place)
                                          : order.host_waited_for(past.by->place);
        },
        [&](PastAccess const& past, Interval where) {
          auto const name = detail::name_of(past);
          found.push_back({CheckKind::early_reuse,
                           fmt::format("{} that '{}' {}", what, name, detail::past_verb(past.mode)),
                           detail::describe(past, where),
                           std::nullopt,
                           fmt::format("the host must wait for '{}' before that", name)});
        });
  }

  /// Distinguishes a child of fork(), whose copy of the mutex may be locked by a thread that the
  /// child does not have.
  detail::HomeProcess home;
  std::mutex mutable mutex;  ///< guards all members except the log
  detail::HappensBefore order;
  detail::AccessHistory history;
  detail::TrackedLines lines;
  MemoryLedger memory;
  std::vector<Hold> holds;
  std::uint64_t sequence = 0;
  /// The operations that have been issued and not yet launched.
  std::unordered_map<Operation const*, Work> issued;
  /// The findings of an operation that could not be published when they were made.
  struct Untold {
    std::vector<CheckReport> found;
    bool in_a_destructor = false;  ///< true if tell() may be called in a destructor
  };
  std::unordered_map<Operation const*, Untold> untold;
  std::unordered_map<Handle, OperationParts> graphs;
  detail::FindingLog log;
};

}  // namespace msstream
