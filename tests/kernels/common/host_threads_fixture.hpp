// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/parallel_rows_host.hpp"
#include "ids/bag_view.hpp"
#include "kernels/kernel_fixture.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace msstream::ops::kernels::testing {

/// A work queue that runs work at once, on the calling thread alone or with all threads of the
/// process.
class Immediate final : public msstream::detail::WorkQueue {
 public:
  explicit Immediate(bool alone) : alone_(alone) {}
  std::uint64_t enqueue(Closure closure) override {
    if (alone_) {
      // Work that is called from within a range of parallel_ranges() runs on its thread alone.
      RangeTeam(1).run(2, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin == 0) {
          closure();
        }
      });
    } else {
      closure();
    }
    return ++number_;
  }

 private:
  bool alone_;
  std::uint64_t number_ = 0;
};

/// Tests that host kernels give the same bits whether one thread runs them or several.
class HostThreads : public ::testing::Test {
 protected:
  /// Calls `issue(stream, output)` once for one thread and once for all threads, each with its own
  /// copy of `before` as the output. Expects that both outputs have the same bits and differ from
  /// `before`.
  template <class Issue>
  static void expect_same_bits(std::vector<float> const& before, Issue const& issue) {
    auto alone = before;
    auto shared = before;
    Immediate one(true);
    Immediate all(false);
    issue(HostStream(one), alone.data());
    issue(HostStream(all), shared.data());
    EXPECT_EQ(std::memcmp(alone.data(), shared.data(), alone.size() * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(alone.data(), before.data(), alone.size() * sizeof(float)), 0);
  }
  static std::vector<float> poisoned(std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    std::memset(out.data(), kPoisonByte, out.size() * sizeof(float));
    return out;
  }

  Random random;
};

/// Bags of ids whose lengths fall by a power law, so that a few bags hold most ids. Some ids are
/// bad.
struct PowerLawBags {
  static constexpr std::int64_t kBags = 3000;
  static constexpr std::int64_t kRows = 2000;
  static constexpr std::int64_t kLongest = 5000;
  /// The length of the longest bag that makes so many ids that even a task with very little work
  /// per id is worth sharing among threads.
  static constexpr std::int64_t kWorthCounting = 30'000;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> ids;

  explicit PowerLawBags(Random& random, std::int64_t longest = kLongest) {
    for (std::int64_t bag = 0; bag < kBags; ++bag) {
      offsets.push_back(offsets.back() + (bag % 3) * longest / (bag + 1));
    }
    ids = random.integers(places(), -1, kRows);
  }
  [[nodiscard]] std::int64_t places() const { return offsets.back(); }
  [[nodiscard]] BagView view() const {
    return {.ids = ids.data(), .bags = kBags, .capacity = places(), .offsets = offsets.data()};
  }
};

}  // namespace msstream::ops::kernels::testing
