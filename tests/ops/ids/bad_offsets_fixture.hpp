// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ids/judged_offsets.hpp"
#include "ops/ops_fixture.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

using ops::kernels::testing::JudgedOffsets;
using ops::kernels::testing::random_bad_offsets;

[[nodiscard]] inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// The sizes of one random test case: the number of bags, the number of values that offsets may
/// address, and the width of a row.
struct Sizes {
  std::int64_t bags;
  std::int64_t capacity;
  std::int64_t width;
};

/// A fixture for tests that an operation leaves out the bags whose offsets descend or lead out of
/// the values.
template <class R>
class OffsetsFixture : public OpsTest<R> {
 protected:
  /// Returns sizes of test cases with few bags, which CUDA handles in one launch, and with many
  /// bags, some of them empty, short or long.
  std::vector<Sizes> sizes() {
    return {{3, 5, 1}, {37, 60, 3}, {64, 100, 4}, {1500, 7000, 4}, {9000, 4000, 8}, {40, 9000, 33}};
  }
  /// Calls check(sizes, offsets, judged offsets) for offsets that are wrong in many ways. Judged
  /// offsets say which bags are good.
  template <class Check>
  void for_all(Check const& check) {
    Sizes const many{9000, 4000, 8};
    auto const scattered = bad_at_every_distance(many);
    check(many, scattered, JudgedOffsets(scattered, many.capacity));
    if (this->HasFatalFailure()) {
      return;
    }
    for (auto const& size : sizes()) {
      for (int round = 0; round < (size.capacity < 1000 ? 8 : 3); ++round) {
        auto const offsets = random_bad_offsets(this->random, size.bags, size.capacity);
        SCOPED_TRACE(fmt::format("{} bags of {}, round {}", size.bags, size.capacity, round));
        check(size, offsets, JudgedOffsets(offsets, size.capacity));
        if (this->HasFatalFailure()) {
          return;
        }
      }
    }
  }
  /// Returns offsets of short and empty bags, of which two in a hundred are bad. The bad bags have
  /// every distance from the bags at which lanes, groups of lanes and blocks begin. The last bag is
  /// bad, too.
  static Integers bad_at_every_distance(Sizes const& size) {
    Integers offsets;
    for (std::int64_t bag = 0; bag <= size.bags; ++bag) {
      offsets.push_back(bag * size.capacity / size.bags);
    }
    for (std::int64_t wrong = 50; wrong < size.bags; wrong += 101) {
      offsets[at(wrong)] = wrong % 2 == 0 ? -1 : size.capacity + 1;
    }
    offsets.back() = size.capacity + 1;
    return offsets;
  }
  /// Returns random whole numbers, whose sums are exact in any order, and sets `floats` to the same
  /// numbers.
  Doubles random_doubles(std::int64_t count, Floats& floats) {
    auto const whole = this->random.integers(count, -4, 4);
    floats.assign(whole.begin(), whole.end());
    return to_doubles(floats);
  }
};

}  // namespace msstream::testing
