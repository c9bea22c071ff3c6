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

/// Records the owner of each range of memory, and which memory was never written. Not synchronised.
class MemoryLedger {
 public:
  enum class Holder : std::uint8_t {
    runtime_user,  ///< allocated from the runtime by code that uses all of it
    pool,          ///< held by an allocator, to be given out
    owner,         ///< given out by an allocator
  };
  struct Part {
    Checker::Space space;
    Holder holder;
    std::uint64_t owner = 0;  ///< the number of the allocation that gave it out; 0 if none
    std::string taken_in;     ///< the name scope in which it was last given out
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
  /// Notes that the range is given out. Returns its kind of memory; empty for memory that is not
  /// the runtime's.
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

  /// Returns some part of the range, preferably one that a pool holds; null for memory that is not
  /// the runtime's.
  [[nodiscard]] Part const* part_at(Interval range) {
    Part const* found = nullptr;
    parts_.for_each_overlap(range, [&](Interval, Part const& part) {
      found = found == nullptr || part.holder == Holder::pool ? &part : found;
    });
    return found;
  }
  /// Returns whether nothing has written the range, and no issued write to it is pending, apart
  /// from `own` writes of the operation itself. False if the range is partly written, because only
  /// its reader knows which part counts.
  [[nodiscard]] bool is_unwritten(Interval range, std::uint32_t own = 0) {
    auto left = range.end - range.begin;
    unwritten_.for_each_overlap(range, [&](Interval held, Unwritten const& part) {
      if (part.writes_issued <= own) {
        left -= std::min(range.end, held.end) - std::max(range.begin, held.begin);
      }
    });
    return !range.empty() && left == 0;
  }
  /// Returns whether an operation that was to write some of the range was not launched.
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
  /// Notes the outcome of a write that was issued.
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
  /// Memory that nothing has written since it was given out.
  struct Unwritten {
    /// The number of issued writes, neither launched nor given up.
    std::uint32_t writes_issued = 0;
    bool given_up = false;  ///< whether one of the issued writes was given up
  };

  IntervalMap<Part> parts_;
  IntervalMap<Unwritten> unwritten_;
  std::uint64_t givings_ = 0;
};

}  // namespace msstream::detail
