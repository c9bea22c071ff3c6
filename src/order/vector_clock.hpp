// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::order {

/// A vector clock (Fidge 1988, Mattern 1989) whose components are stream positions: for each
/// stream, the newest operation that is known to precede the clock's owner.
///
/// Not synchronised. The storage grows to the highest stream index ever raised and is kept, so that
/// a clock in use does not allocate.
class VectorClock {
 public:
  [[nodiscard]] std::uint64_t operator[](StreamIndex stream) const noexcept {
    return stream < newest_.size() ? newest_[stream] : 0;
  }
  [[nodiscard]] bool covers(Position position) const noexcept {
    return (*this)[position.stream] >= position.number;
  }
  void raise(Position position) {
    grow(position.stream + std::size_t{1});
    newest_[position.stream] = std::max(newest_[position.stream], position.number);
  }
  /// Raises the position of each stream to that in the other clock, where that is newer.
  void merge(VectorClock const& other) {
    grow(other.newest_.size());
    for (std::size_t i = 0; i < other.newest_.size(); ++i) {
      newest_[i] = std::max(newest_[i], other.newest_[i]);
    }
  }
  void clear() noexcept { std::fill(newest_.begin(), newest_.end(), 0); }

  [[nodiscard]] StreamIndex streams() const noexcept {
    return static_cast<StreamIndex>(newest_.size());
  }

 private:
  void grow(std::size_t streams) {
    if (newest_.size() < streams) {
      newest_.resize(streams, 0);
    }
  }

  std::vector<std::uint64_t> newest_;
};

}  // namespace msstream::order
