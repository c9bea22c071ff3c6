// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interval_map.hpp"

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace msstream::detail {

/// Records, for each range of memory, its owner, and whether anything has written it. Not
/// synchronised.
class MemoryLedger {
 public:
  enum class Holder : std::uint8_t {
    runtime_user,  ///< allocated from the runtime by code that uses it itself
    pool,          ///< held by an allocator, and currently free
    owner,         ///< handed out by an allocator
  };
  struct Part {
    Checker::Space space;
    Holder holder;
    std::uint64_t owner = 0;  ///< the number of the allocation; 0 if never handed out
    std::string taken_in;     ///< the name scope of the newest allocation
  };

  void allocated(Interval range, Checker::Space space) {
    parts_.assign(range, Part{space, Holder::runtime_user, 0, {}});
  }
  void freed(Interval range) {
    parts_.erase(range);
    unwritten_.erase(range);
  }
  void pooled(Interval range) {
    parts_.cut(range);
    parts_.for_each_overlap(range, [](Interval, Part& part) { part.holder = Holder::pool; });
  }
  /// Records that an allocator has handed out the range. Returns the kind of memory; empty for
  /// memory that was not allocated from the runtime.
  std::optional<Checker::Space> taken(Interval range, std::string_view scope) {
    std::optional<Checker::Space> space;
    parts_.cut(range);
    std::uint64_t const owner = ++givings_;
    parts_.for_each_overlap(range, [&](Interval, Part& part) {
      part.holder = Holder::owner;
      part.owner = owner;
      part.taken_in = scope;
      space = part.space;
    });
    if (space == Checker::Space::device) {  // the host may write pinned memory without notice
      unwritten_.assign(range, Unwritten{});
    }
    return space;
  }
  void returned(Interval range) {
    parts_.cut(range);
    parts_.for_each_overlap(range, [](Interval, Part& part) { part.holder = Holder::pool; });
    unwritten_.erase(range);
  }

  /// Returns the entry of one part of the range, preferably of a part that an allocator holds as
  /// free. Returns null for memory that was not allocated from the runtime.
  [[nodiscard]] Part const* part_at(Interval range) {
    Part const* found = nullptr;
    parts_.for_each_overlap(range, [&](Interval, Part const& part) {
      found = found == nullptr || part.holder == Holder::pool ? &part : found;
    });
    return found;
  }
  /// Returns whether no operation has written the range, and no issued write to it is pending,
  /// apart from `own` writes by the reading operation itself. Returns false if the range is partly
  /// written, because only the reader knows which part it needs.
  [[nodiscard]] bool is_unwritten(Interval range, std::uint32_t own = 0) {
    auto left = range.end - range.begin;
    unwritten_.for_each_overlap(range, [&](Interval held, Unwritten const& part) {
      if (part.writes_issued <= own) {
        left -= std::min(range.end, held.end) - std::max(range.begin, held.begin);
      }
    });
    return !range.empty() && left == 0;
  }
  /// Returns whether an issued write to some of the range was not launched.
  [[nodiscard]] bool was_given_up(Interval range) {
    bool given_up = false;
    unwritten_.for_each_overlap(
        range, [&](Interval, Unwritten const& part) { given_up |= part.given_up; });
    return given_up;
  }
  void write_issued(Interval range) {
    unwritten_.cut(range);
    unwritten_.for_each_overlap(range, [](Interval, Unwritten& part) { ++part.writes_issued; });
  }
  /// Records whether an issued write was launched or given up.
  void write_ended(Interval range, Outcome outcome) {
    if (outcome == Outcome::launched) {
      written(range);
      return;
    }
    unwritten_.cut(range);
    unwritten_.for_each_overlap(range, [](Interval, Unwritten& part) {
      --part.writes_issued;
      part.given_up = true;
    });
  }
  void written(Interval range) { unwritten_.erase(range); }

  template <class Visit>
  void for_each(Visit&& visit) {
    parts_.for_each(std::forward<Visit>(visit));
  }

 private:
  /// The state of memory that nothing has written since it was handed out.
  struct Unwritten {
    /// The number of writes that are issued, and neither launched nor given up yet.
    std::uint32_t writes_issued = 0;
    bool given_up = false;  ///< whether one of the issued writes was given up
  };

  IntervalMap<Part> parts_;
  IntervalMap<Unwritten> unwritten_;
  std::uint64_t givings_ = 0;
};

}  // namespace msstream::detail
