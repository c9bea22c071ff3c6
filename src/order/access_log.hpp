// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"

#include <msstream/order/detail/position_set.hpp>
#include <msstream/order/position.hpp>

#include <cstdint>

namespace msstream::order {

/// The positions of the operations that last wrote a piece of memory, and of those that have read
/// it since.
///
/// The log is kept when the memory is freed and reused: the first write of the next owner is
/// ordered after the accesses of the previous owner like any other hazard. Not synchronised.
class AccessLog {
 public:
  /// Adds the positions that a read must follow: the last writes.
  void add_hazards_of_read(PositionSet& needed) const {
    if (detail::works(detail::Mechanism::read_after_write)) {
      add_writes(needed);
    }
  }
  /// Adds the positions that a write must follow: the last writes and all reads since. Writes are
  /// added even if there are reads: a read whose issue failed may not have waited for them.
  void add_hazards_of_write(PositionSet& needed) const {
    if (detail::works(detail::Mechanism::write_after_write)) {
      add_writes(needed);
    }
    if (detail::works(detail::Mechanism::write_after_read)) {
      for (auto const& read : reads_) {
        needed.add(read);
      }
    }
  }

  void note_read(Position position) { reads_.add(position); }
  void note_write(Position position) {
    clear();
    writes_.add(position);
    ++write_count_;
  }
  /// Adds the accesses of another piece of memory, which becomes part of the log's memory.
  void note_all_of(AccessLog const& other) {
    for (auto const& write : other.writes_) {
      writes_.add(write);
    }
    for (auto const& read : other.reads_) {
      reads_.add(read);
    }
  }
  /// Notes a use that may have both read and written, concurrently with other unordered uses on
  /// other streams. Earlier uses are kept, because this one was not ordered after them.
  void note_unordered_write(Position position) {
    writes_.add(position);
    ++write_count_;
  }
  void clear() noexcept {
    writes_.clear();
    reads_.clear();
  }

  [[nodiscard]] bool empty() const noexcept { return writes_.size() + reads_.size() == 0; }
  [[nodiscard]] PositionSet const& writes() const noexcept { return writes_; }
  [[nodiscard]] PositionSet const& reads() const noexcept { return reads_; }
  /// Returns how many writes have been noted, which tells whether the memory has been written
  /// between two calls. Neither clear() nor note_all_of() changes it.
  [[nodiscard]] std::uint64_t write_count() const noexcept { return write_count_; }

 private:
  void add_writes(PositionSet& needed) const {
    for (auto const& write : writes_) {
      needed.add(write);
    }
  }

  PositionSet writes_;
  PositionSet reads_;
  std::uint64_t write_count_ = 0;
};

}  // namespace msstream::order
