// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/inline_vector.hpp>
#include <msstream/order/position.hpp>

#include <algorithm>
#include <cstddef>

namespace msstream::order {

/// A set of positions of operations on streams that keeps only the newest position of each stream.
/// Its size is O(streams), however many positions are added.
class PositionSet {
 public:
  void add(Position position) {
    for (auto& held : positions_) {
      if (held.stream == position.stream) {
        held.number = std::max(held.number, position.number);
        return;
      }
    }
    positions_.push_back(position);
  }
  template <class Predicate>
  void remove_if(Predicate&& predicate) {
    auto* const kept = std::remove_if(positions_.begin(), positions_.end(), predicate);
    positions_.resize_down(static_cast<std::size_t>(kept - positions_.begin()));
  }
  void clear() noexcept { positions_.clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return positions_.size(); }
  [[nodiscard]] bool empty() const noexcept { return positions_.empty(); }
  [[nodiscard]] Position const* begin() const noexcept { return positions_.begin(); }
  [[nodiscard]] Position const* end() const noexcept { return positions_.end(); }
  [[nodiscard]] Position const& operator[](std::size_t i) const noexcept { return positions_[i]; }

 private:
  detail::InlineVector<Position, 4> positions_;
};

}  // namespace msstream::order
