// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>
#include <msstream/order/position_set.hpp>

namespace msstream::order {

/// Who last wrote a piece of memory, and who has read it since.
///
/// The log survives the reuse of the memory: the first write of the next owner is then ordered
/// after the accesses of the last one like any other hazard. Not synchronised.
class AccessLog {
 public:
  /// Adds what a read must follow: the last write.
  void add_hazards_of_read(PositionSet& needed) const {
    if (last_write_.number != 0) {
      needed.add(last_write_);
    }
  }
  /// Adds what a write must follow: the last write and all reads since. The write is not left out
  /// when there are reads: a read whose issue failed may not have waited for it.
  void add_hazards_of_write(PositionSet& needed) const {
    add_hazards_of_read(needed);
    for (auto const& read : reads_) {
      needed.add(read);
    }
  }

  void note_read(Position position) { reads_.add(position); }
  void note_write(Position position) {
    last_write_ = position;
    reads_.clear();
  }

  [[nodiscard]] Position last_write() const noexcept { return last_write_; }
  [[nodiscard]] PositionSet const& reads() const noexcept { return reads_; }

 private:
  Position last_write_;
  PositionSet reads_;
};

}  // namespace msstream::order
