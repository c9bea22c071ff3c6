// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "order/access_log.hpp"

#include <msstream/base/detail/inline_vector.hpp>
#include <msstream/runtime/operation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::detail {

/// The access log of one piece of memory, with the lock that guards the log. The caller of a member
/// function must hold the lock.
struct AccessRecord {
  /// Adds the positions that a use of the memory must follow.
  void add_hazards(AccessMode mode, order::PositionSet& needed) const {
    mode == AccessMode::read ? log.add_hazards_of_read(needed) : log.add_hazards_of_write(needed);
  }
  /// Notes a use that follows all positions of add_hazards(). A write therefore replaces all
  /// earlier uses.
  void note(AccessMode mode, order::Position position) {
    mode == AccessMode::read ? log.note_read(position) : log.note_write(position);
  }
  /// Notes a use by work that msstream did not issue, which may run concurrently with other foreign
  /// uses on other streams. A write therefore replaces no earlier use.
  void note_foreign(AccessMode mode, order::Position position) {
    mode == AccessMode::read ? log.note_read(position) : log.note_unordered_write(position);
  }

  SpinLock lock;
  order::AccessLog log;
};

/// One operation's declared use of one piece of memory. With the mode `write`, the operation may
/// read as well.
struct Access {
  AccessRecord* record;
  AccessMode mode;
};

/// The accesses of one operation. normalise() keeps one access for each record, sorted by the
/// record's address. All operations lock records in the order of addresses, so two operations that
/// share two pieces of memory can neither deadlock nor each precede the other.
class AccessSet {
 public:
  void add(AccessRecord& record, AccessMode mode) { accesses_.emplace_back(&record, mode); }

  void normalise() {
    if (accesses_.size() <= kFew) {
      insertion_sort();
    } else {
      std::sort(accesses_.begin(), accesses_.end(), comes_before);
    }
    auto* const last =
        std::unique(accesses_.begin(), accesses_.end(), [](Access const& a, Access const& b) {
          return a.record == b.record;
        });
    accesses_.resize_down(static_cast<std::size_t>(last - accesses_.begin()));
  }

  [[nodiscard]] Access const* begin() const noexcept { return accesses_.begin(); }
  [[nodiscard]] Access const* end() const noexcept { return accesses_.end(); }

 private:
  static constexpr std::size_t kFew = 16;

  /// Sorts the accesses in a third of the time of std::sort: there are few, and they are usually
  /// sorted already.
  void insertion_sort() {
    for (auto* next = accesses_.begin(); next != accesses_.end(); ++next) {
      if (next == accesses_.begin() || !comes_before(*next, next[-1])) [[likely]] {
        continue;
      }
      Access const access = *next;
      auto* place = next;
      for (; place != accesses_.begin() && comes_before(access, place[-1]); --place) {
        *place = place[-1];
      }
      *place = access;
    }
  }
  static bool comes_before(Access const& a, Access const& b) noexcept {
    return a.record != b.record ? a.record < b.record : a.mode > b.mode;
  }

  InlineVector<Access, 8> accesses_;
};

/// A guard that holds the locks of all records of a normalised set of accesses.
class LockedRecords {
 public:
  explicit LockedRecords(AccessSet const& accesses) noexcept : accesses_(accesses) {
    for (auto const& access : accesses_) {
      access.record->lock.lock();
    }
  }
  ~LockedRecords() {
    for (auto const& access : accesses_) {
      access.record->lock.unlock();
    }
  }
  LockedRecords(LockedRecords const&) = delete;
  LockedRecords& operator=(LockedRecords const&) = delete;

 private:
  AccessSet const& accesses_;
};

}  // namespace msstream::detail
