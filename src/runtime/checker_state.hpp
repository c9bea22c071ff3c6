// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "access_history.hpp"
#include "finding_log.hpp"
#include "happens_before.hpp"
#include "memory_ledger.hpp"

#include <msstream/base/text.hpp>
#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::detail {

inline CheckedAccess describe(Operation const& operation, AccessMode mode, Interval range) {
  return {operation.name,
          operation.lane,
          mode,
          range.begin,
          range.end - range.begin,
          operation.issued_at,
          operation.scope_opened_at};
}

inline Interval interval_of(MemoryUse const& use) {
  return Interval::of(use.begin, use.bytes);
}

inline std::string_view past_verb(AccessMode mode) {
  return mode == AccessMode::read ? "may still read" : "may still write";
}

/// The use that names the range; a write, where there is one.
inline MemoryUse const* declared_use_of(Operation const& operation, Interval range) {
  MemoryUse const* found = nullptr;
  for (auto const& use : operation.uses) {
    bool const names_more = found == nullptr || use.mode == AccessMode::write;
    if (names_more && interval_of(use).contains(range)) {
      found = &use;
    }
  }
  return found;
}

}  // namespace msstream::detail

namespace msstream {

/// What a checker knows, and what it can find out from that.
struct Checker::State {
  using Interval = detail::Interval;
  using MemoryLedger = detail::MemoryLedger;
  using PastAccess = detail::PastAccess;
  using Place = detail::Place;

  explicit State(CheckerOptions options) : log(std::move(options)) {}

  /// Work on a stream between the begin and the end of foreign work: nothing is known of it, and
  /// it may use what it holds at any time.
  struct Hold {
    OperationHandle operation;
    std::size_t stream_index;
  };

  /// Notes whose memory it is, and finds what is in no use, or read before a write of it was
  /// issued.
  void find_misuse(Operation const& operation,
                   std::vector<MemoryUse>& uses,
                   std::vector<CheckReport>& found) {
    for (auto& use : uses) {
      auto const range = detail::interval_of(use);
      auto const* const part = memory.part_at(range);
      use.owner = part != nullptr ? part->owner : 0;
      if (part != nullptr && part->holder == MemoryLedger::Holder::pool) {
        found.push_back(
            {CheckKind::use_after_free,
             text("'", operation.name, "' uses memory that was given back, or never given out"),
             std::nullopt,
             detail::describe(operation, use.mode, range),
             "the memory must be held until the operation is issued"});
      } else if (use.mode == AccessMode::read && memory.is_unwritten(range) &&
                 !memory.was_given_up(range)) {
        tell_unwritten(operation,
                       use,
                       "' reads memory that nothing has written",
                       text("an operation that writes it, issued before '", operation.name, "'"),
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
  /// What was issued has been launched, or never will be.
  void note_outcome(Operation const& operation, Outcome outcome) {
    for (auto const& use : operation.uses) {
      if (use.mode == AccessMode::write && is_still_of(use)) {
        memory.write_ended(detail::interval_of(use), outcome);
      }
    }
  }
  /// All that the operation follows is launched, or was given up.
  void find_reads_of_what_was_given_up(Operation const& operation,
                                       std::vector<CheckReport>& found) {
    for (auto const& use : operation.uses) {
      auto const range = detail::interval_of(use);
      if (use.mode == AccessMode::read &&
          memory.is_unwritten(range, writes_inside(operation, range)) && is_still_of(use)) {
        tell_unwritten(
            operation,
            use,
            "' reads memory whose first write failed, or was left out",
            text("'", operation.name, "' must not be launched when what it follows has failed"),
            found);
      }
    }
  }
  void tell_unwritten(Operation const& operation,
                      MemoryUse const& use,
                      char const* what,
                      std::string missing,
                      std::vector<CheckReport>& found) {
    auto const range = detail::interval_of(use);
    found.push_back({CheckKind::unwritten_read,
                     text("'", operation.name, what),
                     std::nullopt,
                     detail::describe(operation, use.mode, range),
                     std::move(missing)});
    memory.written(range);  // once is enough
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
  /// Whether the memory has not been given to anybody else since the use was declared.
  [[nodiscard]] bool is_still_of(MemoryUse const& use) {
    auto const* const part = memory.part_at(detail::interval_of(use));
    return part != nullptr && part->owner == use.owner;
  }
  /// What an operation copies is its own. What it has named was looked at then, and may be somebody
  /// else's by now.
  void adopt(Operation const& operation,
             std::vector<MemoryUse>& uses,
             std::vector<CheckReport>& found) {
    for (auto& use : uses) {
      auto const range = detail::interval_of(use);
      if (auto const* const named = detail::declared_use_of(operation, range); named != nullptr) {
        use.owner = named->owner;
        if (use.mode == AccessMode::write && named->mode == AccessMode::read) {
          found.push_back(
              undeclared(operation, use, "' writes memory that it names in reads() only"));
        }
        continue;
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
    }
  }
  static CheckReport undeclared(Operation const& operation,
                                MemoryUse const& use,
                                char const* what) {
    return {CheckKind::undeclared_use,
            text("'", operation.name, what, ", so nothing orders it"),
            std::nullopt,
            detail::describe(operation, use.mode, detail::interval_of(use)),
            use.mode == AccessMode::read ? "it must be among the reads() of the operation"
                                         : "it must be among the writes() of the operation"};
  }
  /// True where the operation is not to go on.
  [[nodiscard]] bool stops(std::vector<CheckReport> const& found) const {
    return log.throws() && !found.empty();
  }
  /// Of operations: copies past issue() are ordered by hand, if at all, and maybe by the holder.
  void find_writes_of_held_memory(Operation const& operation,
                                  std::size_t stream_index,
                                  std::vector<CheckReport>& found) const {
    for (auto const& hold : holds) {
      for (auto const& held : hold.operation->uses) {
        for (auto const& use : operation.uses) {
          if (use.mode == AccessMode::write && hold.stream_index != stream_index &&
              detail::interval_of(held).overlaps(detail::interval_of(use))) {
            found.push_back(race(operation,
                                 use,
                                 {{}, hold.operation, held.mode, use.owner},
                                 detail::interval_of(held)));
          }
        }
      }
    }
  }
  /// The earlier accesses that a use on the stream does not follow.
  void find_races(Operation const& operation,
                  std::vector<MemoryUse> const& uses,
                  detail::HappensBefore::Stream const& stream,
                  std::vector<CheckReport>& found) {
    for (auto const& use : uses) {
      history.for_each_conflict(
          detail::interval_of(use), use.mode, [&](PastAccess const& past, Interval where) {
            if (!detail::HappensBefore::precedes(past.place, stream)) {
              found.push_back(race(operation, use, past, where));
            }
          });
    }
  }
  static CheckReport race(Operation const& operation,
                          MemoryUse const& use,
                          PastAccess const& past,
                          Interval where) {
    auto const range = detail::interval_of(use);
    Interval const both{std::max(range.begin, where.begin), std::min(range.end, where.end)};
    bool const reused = past.owner != use.owner && past.owner != 0 && use.owner != 0;
    return {CheckKind::race,
            text("'",
                 operation.name,
                 use.mode == AccessMode::read ? "' reads" : "' writes",
                 " memory that '",
                 past.operation->name,
                 "' ",
                 detail::past_verb(past.mode),
                 reused ? "; the memory was given back and out again in between" : ""),
            detail::describe(*past.operation, past.mode, both),
            detail::describe(operation, use.mode, both),
            text(operation.lane,
                 " must wait for '",
                 past.operation->name,
                 "' on ",
                 past.operation->lane,
                 " before '",
                 operation.name,
                 "'")};
  }
  void note_uses(OperationHandle const& operation,
                 std::vector<MemoryUse> const& uses,
                 Place place) {
    for (auto const& use : uses) {
      history.note(detail::interval_of(use), {place, operation, use.mode, use.owner});
    }
  }
  /// The accesses to the range that the host does not know to be over.
  template <class Visit>
  void for_each_in_flight(Interval range, AccessMode mode, Visit&& visit) {
    history.for_each_conflict(range, mode, [&](PastAccess const& past, Interval where) {
      if (!order.host_knows(past.place)) {
        visit(past, where);
      }
    });
  }
  void find_early_reuse(Interval range, char const* what, std::vector<CheckReport>& found) {
    for_each_in_flight(range, AccessMode::write, [&](PastAccess const& past, Interval where) {
      found.push_back(
          {CheckKind::early_reuse,
           text(what, " that '", past.operation->name, "' ", detail::past_verb(past.mode)),
           detail::describe(*past.operation, past.mode, where),
           std::nullopt,
           text("the host must wait for '", past.operation->name, "' before that")});
    });
  }

  std::mutex mutable mutex;  ///< guards all but the log
  detail::HappensBefore order;
  detail::AccessHistory history;
  MemoryLedger memory;
  std::vector<Hold> holds;
  detail::FindingLog log;
};

}  // namespace msstream
