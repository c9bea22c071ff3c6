// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interval_map.hpp"
#include "issued_work.hpp"

#include <msstream/runtime/operation.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The accesses of a program to each byte of memory: the last writes, and, for each stream, the
/// newest read and the newest accumulation since the last writes. Not synchronised.
class AccessHistory {
 public:
  /// Calls `visit(PastAccess, Interval)` for each earlier access that conflicts with an access to
  /// the range in `mode`.
  template <class Visit>
  void for_each_conflict(Interval range, AccessMode mode, Visit&& visit) {
    used_.for_each_overlap(range, [&](Interval place, Uses const& uses) {
      for (auto const& write : uses.writes) {
        visit(write, place);
      }
      if (mode != AccessMode::read) {
        for (auto const& read : uses.reads) {
          visit(read, place);
        }
      }
      if (mode != AccessMode::accumulate) {
        for (auto const& accumulation : uses.accumulations) {
          visit(accumulation, place);
        }
      }
    });
  }

  void note(Interval range, PastAccess const& access) {
    if (access.mode == AccessMode::write) {
      if (auto* const uses = used_.exact(range);
          uses != nullptr) {  // an operation that writes in place allocates nothing here
        uses->writes.assign(1, access);
        uses->reads.clear();
        uses->accumulations.clear();
      } else {
        used_.assign(range, Uses{{access}, {}, {}});
      }
      return;
    }
    note_beside(range, access);
  }
  /// Adds an access and keeps the earlier ones. Also used for a write that is ordered after none of
  /// the earlier accesses.
  void note_beside(Interval range, PastAccess const& access) {
    update(range, [&](Uses& uses) { replace_or_add(uses.of(access.mode), access); });
  }
  void forget(Interval range) { used_.erase(range); }
  /// Copies the history of the range to the addresses that begin at `to`, where the memory of the
  /// range is mapped a second time.
  void hand_on(Interval range, std::uintptr_t to) {
    std::vector<std::pair<Interval, Uses>> past;
    used_.for_each_overlap(range, [&](Interval place, Uses const& uses) {
      auto const begin = std::max(place.begin, range.begin) - range.begin;
      auto const end = std::min(place.end, range.end) - range.begin;
      past.push_back({{to + begin, to + end}, uses});
    });
    for (auto& [place, uses] : past) {
      used_.assign(place, std::move(uses));
    }
  }

 private:
  struct Uses {
    std::vector<PastAccess> writes;
    std::vector<PastAccess> reads;
    std::vector<PastAccess> accumulations;

    [[nodiscard]] std::vector<PastAccess>& of(AccessMode mode) noexcept {
      return mode == AccessMode::write ? writes : mode == AccessMode::read ? reads : accumulations;
    }
  };

  template <class Update>
  void update(Interval range, Update&& apply) {
    if (auto* const uses = used_.exact(range); uses != nullptr) {
      apply(*uses);
      return;
    }
    used_.cut(range);
    used_.fill_gaps(range, Uses{});
    used_.for_each_overlap(range, [&](Interval, Uses& uses) { apply(uses); });
  }
  /// Adds an access. If there is an earlier access on the same stream, the new one replaces it,
  /// because work that follows the new access also follows the earlier one.
  static void replace_or_add(std::vector<PastAccess>& accesses, PastAccess const& access) {
    auto const same_stream =
        std::find_if(accesses.begin(), accesses.end(), [&](PastAccess const& held) {
          return held.by->place.index == access.by->place.index;
        });
    if (same_stream == accesses.end()) {
      accesses.push_back(access);
    } else if (same_stream->by->place.number <= access.by->place.number) {
      *same_stream = access;
    }
  }

  IntervalMap<Uses> used_;
};

}  // namespace msstream::detail
