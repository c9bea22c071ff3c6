// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/order/position.hpp>
#include <msstream/order/position_set.hpp>

namespace msstream::order {

/// Who last wrote a piece of memory, and who has read it since.
///
/// The log survives the reuse of the memory: the first write of the next owner is then ordered
/// after the accesses of the last one like any other hazard. Not synchronised.
class AccessLog {
 public:
  /// Adds what a read must follow: the last writes.
  void add_hazards_of_read(PositionSet& needed) const {
    if (works(Mechanism::read_after_write)) {
      add_writes(needed);
    }
  }
  /// Adds what a write must follow: the last writes and all reads since. The writes are not left
  /// out when there are reads: a read whose issue failed may not have waited for them.
  void add_hazards_of_write(PositionSet& needed) const {
    if (works(Mechanism::write_after_write)) {
      add_writes(needed);
    }
    if (works(Mechanism::write_after_read)) {
      for (auto const& read : reads_) {
        needed.add(read);
      }
    }
  }

  void note_read(Position position) { reads_.add(position); }
  void note_write(Position position) {
    clear();
    writes_.add(position);
  }
  /// Takes over what is noted of other memory that becomes part of this one.
  void note_all_of(AccessLog const& other) {
    for (auto const& write : other.writes_) {
      writes_.add(write);
    }
    for (auto const& read : other.reads_) {
      reads_.add(read);
    }
  }
  /// A use that may have read and written, beside other such uses on other streams, and was ordered
  /// after nothing.
  void note_unordered_write(Position position) { writes_.add(position); }
  void clear() noexcept {
    writes_.clear();
    reads_.clear();
  }

  [[nodiscard]] bool empty() const noexcept { return writes_.size() + reads_.size() == 0; }
  [[nodiscard]] PositionSet const& writes() const noexcept { return writes_; }
  [[nodiscard]] PositionSet const& reads() const noexcept { return reads_; }

 private:
  void add_writes(PositionSet& needed) const {
    for (auto const& write : writes_) {
      needed.add(write);
    }
  }

  PositionSet writes_;
  PositionSet reads_;
};

}  // namespace msstream::order
