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

/// Whose memory is whose, and what of it was never written. Not synchronised.
class MemoryLedger {
 public:
  enum class Holder : std::uint8_t {
    runtime_user,  ///< taken from the runtime by someone who uses it all
    pool,          ///< an allocator has it to give out
    owner,         ///< an allocator has given it out
  };
  struct Part {
    Checker::Space space;
    Holder holder;
    std::uint64_t owner = 0;  ///< how often it has been given out
    std::string taken_in;     ///< the name scope in which that was last
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
  /// What it was given out from; empty for memory that is not the runtime's.
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
    if (space == Checker::Space::device) {  // pinned memory is written by the host, unseen
      unwritten_.assign(range, Unwritten{});
    }
    return space;
  }
  void returned(Interval range) {
    parts_.cut(range);
    parts_.for_each_overlap(range, [](Interval, Part& part) { part.holder = Holder::pool; });
    unwritten_.erase(range);
  }

  /// Some part of the range; null for memory that is not the runtime's.
  [[nodiscard]] Part const* part_at(Interval range) {
    Part const* found = nullptr;
    parts_.for_each_overlap(range, [&](Interval, Part const& part) {
      found = found == nullptr || part.holder == Holder::pool ? &part : found;
    });
    return found;
  }
  /// Nothing has written it, and nothing that was issued is to, besides `own` operations. Of a
  /// range written in part, only whoever reads it knows how much counts: no.
  [[nodiscard]] bool is_unwritten(Interval range, std::uint32_t own = 0) {
    auto left = range.end - range.begin;
    unwritten_.for_each_overlap(range, [&](Interval held, Unwritten const& part) {
      if (part.writes_issued <= own) {
        left -= std::min(range.end, held.end) - std::max(range.begin, held.begin);
      }
    });
    return !range.empty() && left == 0;
  }
  /// An operation was to write some of it, and was not launched.
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
  /// Of one that was issued.
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
    std::uint32_t writes_issued = 0;  ///< and neither launched nor given up
    bool given_up = false;            ///< one of them was
  };

  IntervalMap<Part> parts_;
  IntervalMap<Unwritten> unwritten_;
  std::uint64_t givings_ = 0;
};

}  // namespace msstream::detail
