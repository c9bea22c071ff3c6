// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "happens_before.hpp"
#include "interval_map.hpp"

#include <msstream/runtime/operation.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Who used some bytes, when.
struct PastAccess {
  Place place;
  OperationHandle operation;
  AccessMode mode;
  std::uint64_t owner;  ///< of the memory, at the time
};

/// For all bytes ever used: the last writes, and the newest read of each stream since. Not
/// synchronised.
class AccessHistory {
 public:
  /// `visit(PastAccess, Interval)` for each earlier access that must precede one with `mode`.
  template <class Visit>
  void for_each_conflict(Interval range, AccessMode mode, Visit&& visit) {
    used_.for_each_overlap(range, [&](Interval place, Uses const& uses) {
      for (auto const& write : uses.writes) {
        visit(write, place);
      }
      if (mode == AccessMode::write) {
        for (auto const& read : uses.reads) {
          visit(read, place);
        }
      }
    });
  }

  void note(Interval range, PastAccess const& access) {
    if (access.mode == AccessMode::write) {
      if (auto* const uses = used_.exact(range); uses != nullptr) {  // allocates nothing
        uses->writes.assign(1, access);
        uses->reads.clear();
      } else {
        used_.assign(range, Uses{{access}, {}});
      }
      return;
    }
    update(range, [&](Uses& uses) { replace_or_add(uses.reads, access); });
  }
  /// A write beside those before, ordered after none of them.
  void note_beside(Interval range, PastAccess const& access) {
    update(range, [&](Uses& uses) { replace_or_add(uses.writes, access); });
  }
  void forget(Interval range) { used_.erase(range); }
  /// The same bytes are behind other addresses, too, from `to` on.
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
  /// An access on the same stream comes before the new one, and is implied by it.
  static void replace_or_add(std::vector<PastAccess>& accesses, PastAccess const& access) {
    auto const same_stream =
        std::find_if(accesses.begin(), accesses.end(), [&](PastAccess const& held) {
          return held.place.index == access.place.index;
        });
    if (same_stream != accesses.end()) {
      *same_stream = access;
    } else {
      accesses.push_back(access);
    }
  }

  IntervalMap<Uses> used_;
};

}  // namespace msstream::detail
