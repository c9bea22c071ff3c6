// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::datasets {

/// Counts distinct integers by open addressing. Keys are hashes already, so their low bits select
/// the slot.
class DistinctValues {
 public:
  void insert(std::int64_t key) {
    if (key == kEmpty) {
      has_empty_ = true;
      return;
    }
    if (2 * (count_ + 1) > slots_.size()) {
      grow();
    }
    place(key);
  }
  [[nodiscard]] std::int64_t count() const noexcept {
    return static_cast<std::int64_t>(count_) + (has_empty_ ? 1 : 0);
  }

 private:
  static constexpr std::int64_t kEmpty = 0;

  void place(std::int64_t key) {
    auto slot = static_cast<std::size_t>(key) & (slots_.size() - 1);
    while (slots_[slot] != kEmpty && slots_[slot] != key) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    count_ += slots_[slot] == kEmpty ? 1 : 0;
    slots_[slot] = key;
  }
  void grow() {
    auto const old = std::exchange(slots_, std::vector<std::int64_t>(2 * slots_.size(), kEmpty));
    count_ = 0;
    for (auto const key : old) {
      if (key != kEmpty) {
        place(key);
      }
    }
  }

  std::vector<std::int64_t> slots_ = std::vector<std::int64_t>(64, kEmpty);
  std::size_t count_ = 0;
  bool has_empty_ = false;
};

}  // namespace msstream::datasets
