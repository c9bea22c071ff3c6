// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {

/// A reference for the bags whose offsets are bad by the definition in docs/ops.md. It follows the
/// binary searches for both bounds of a bag.
class JudgedOffsets {
 public:
  JudgedOffsets(std::vector<std::int64_t> offsets, std::int64_t capacity)
      : offsets_(std::move(offsets)), capacity_(capacity) {}

  [[nodiscard]] std::int64_t bags() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  [[nodiscard]] bool is_bad(std::int64_t bag) const {
    auto const begin = at(bag);
    auto const end = at(bag + 1);
    if (begin < 0 || end < begin || end > capacity_) {
      return true;
    }
    std::set<std::int64_t> judges{0, bags()};
    add_judges(bag, judges);
    return std::any_of(judges.begin(), judges.end(), [&](std::int64_t border) {
      return border <= bag ? verdict(border) > begin : verdict(border) < end;
    });
  }
  [[nodiscard]] std::int64_t bad_bags() const {
    std::int64_t bad = 0;
    for (std::int64_t bag = 0; bag < bags(); ++bag) {
      bad += is_bad(bag) ? 1 : 0;
    }
    return bad;
  }
  /// Returns the positions [begin, end) of a bag, or [0, 0) if its offsets are bad.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> places(std::int64_t bag) const {
    return is_bad(bag) ? std::pair{std::int64_t{0}, std::int64_t{0}}
                       : std::pair{at(bag), at(bag + 1)};
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t border) const {
    return offsets_[static_cast<std::size_t>(border)];
  }
  /// Adds the indices of the offsets that a binary search for offset `border` compares with, in
  /// steps of halving powers of two from offset 0.
  void add_judges(std::int64_t border, std::set<std::int64_t>& judges) const {
    std::int64_t found = 0;
    for (auto step = std::int64_t{1} << 40; step > 0; step /= 2) {
      if (found + step <= bags()) {
        judges.insert(found + step);
        found += found + step <= border ? step : 0;
      }
    }
  }
  [[nodiscard]] std::int64_t verdict(std::int64_t border) const {
    for (auto i = border; i <= std::min(border + 3, bags()); ++i) {
      if (at(i) >= 0 && at(i) <= capacity_) {
        return at(i);
      }
    }
    return capacity_;
  }

  std::vector<std::int64_t> offsets_;
  std::int64_t capacity_;
};

/// Returns random offsets of `bags` bags in `capacity` positions. The offsets ascend, except for
/// none, one, some or all of them.
[[nodiscard]] inline std::vector<std::int64_t> random_bad_offsets(Random& random,
                                                                  std::int64_t bags,
                                                                  std::int64_t capacity) {
  auto offsets = random.integers(bags + 1, 0, capacity);
  std::sort(offsets.begin(), offsets.end());
  auto const any = [&]() -> std::int64_t {
    switch (random.integer(0, 3)) {
      case 0:
        return random.integer(-3, -1);
      case 1:
        return capacity + random.integer(1, 1'000'000);
      default:
        return random.integer(0, capacity);
    }
  };
  auto const kind = random.integer(0, 4);
  auto const wrong = kind == 0   ? std::int64_t{0}
                     : kind == 1 ? std::int64_t{1}
                     : kind == 2 ? 2 + bags / 8
                                 : bags + 1;
  for (std::int64_t i = 0; i < wrong; ++i) {
    auto const at = kind < 3 ? random.integer(0, bags) : i;
    offsets[static_cast<std::size_t>(at)] = kind == 4 ? random.integer(0, capacity) : any();
  }
  return offsets;
}

}  // namespace msstream::ops::kernels::testing
