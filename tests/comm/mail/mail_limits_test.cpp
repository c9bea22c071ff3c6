// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mail_limits.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace msstream::comm::detail {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

/// Returns a collective of bytes. `count` is that of a Collective.
Collective of_bytes(CollectiveKind kind, std::int64_t count) {
  return {.kind = kind, .dtype = DType::uint8, .count = count};
}
Collective into_symmetric(Collective what) {
  what.output_place = 0;
  return what;
}

TEST(MailLimitsTest, collectives_between_two_ranks_alone_are_not_served) {
  for (auto const kind : {CollectiveKind::send, CollectiveKind::receive}) {
    EXPECT_FALSE(MailLimits{.ranks = 2}.serves(of_bytes(kind, 1)));
  }
}

TEST(MailLimitsTest, rows_by_counts_and_barriers_are_always_served) {
  auto rows = of_bytes(CollectiveKind::all_to_all_counted, 1024 * kMiB);
  rows.capacity = 1;
  EXPECT_TRUE(MailLimits{.ranks = 8}.serves(rows));
  EXPECT_TRUE(MailLimits{.ranks = 8}.serves({.kind = CollectiveKind::barrier}));
}

TEST(MailLimitsTest, copies_of_up_to_64_mib_for_each_other_rank_are_served) {
  for (int const ranks : {2, 3, 8}) {
    MailLimits const limits{.ranks = ranks};
    for (auto const kind : {CollectiveKind::all_gather, CollectiveKind::broadcast}) {
      EXPECT_TRUE(limits.serves(of_bytes(kind, 64 * kMiB))) << ranks;
      EXPECT_FALSE(limits.serves(of_bytes(kind, 64 * kMiB + 1))) << ranks;
    }
    // The count is that of the whole input, of which each rank gets a part.
    EXPECT_TRUE(limits.serves(of_bytes(CollectiveKind::all_to_all, ranks * 64 * kMiB))) << ranks;
    EXPECT_FALSE(limits.serves(of_bytes(CollectiveKind::all_to_all, ranks * (64 * kMiB + 1))))
        << ranks;
    // That of reduce_scatter is the count of a part.
    EXPECT_TRUE(limits.serves(of_bytes(CollectiveKind::reduce_scatter, 64 * kMiB))) << ranks;
    EXPECT_FALSE(limits.serves(of_bytes(CollectiveKind::reduce_scatter, 64 * kMiB + 1))) << ranks;
  }
}

TEST(MailLimitsTest, bytes_are_counted_and_not_elements) {
  MailLimits const limits{.ranks = 2};
  Collective floats{.kind = CollectiveKind::broadcast, .dtype = DType::float32, .count = 16 * kMiB};
  EXPECT_TRUE(limits.serves(floats));
  floats.count += 1;
  EXPECT_FALSE(limits.serves(floats));
}

TEST(MailLimitsTest, sums_between_more_than_two_ranks_are_served_up_to_2_mib_sent) {
  auto const sum = [](std::int64_t bytes) { return of_bytes(CollectiveKind::all_reduce, bytes); };
  EXPECT_TRUE(MailLimits{.ranks = 2}.serves(sum(64 * kMiB)));
  EXPECT_FALSE(MailLimits{.ranks = 2}.serves(sum(64 * kMiB + 1)));
  EXPECT_TRUE(MailLimits{.ranks = 3}.serves(sum(kMiB)));
  EXPECT_FALSE(MailLimits{.ranks = 3}.serves(sum(kMiB + 1)));
  EXPECT_TRUE(MailLimits{.ranks = 8}.serves(sum(2 * kMiB / 7)));
  EXPECT_FALSE(MailLimits{.ranks = 8}.serves(sum(2 * kMiB / 7 + 1)));
}

TEST(MailLimitsTest, copy_engines_write_large_outputs_into_symmetric_tensors) {
  for (int const ranks : {2, 4}) {
    MailLimits const limits{.ranks = ranks};
    auto const large = of_bytes(CollectiveKind::all_gather, 8 * kMiB);
    EXPECT_TRUE(limits.is_for_engines(into_symmetric(large)));
    EXPECT_FALSE(limits.is_for_engines(large)) << "of no symmetric output";
    EXPECT_FALSE(
        limits.is_for_engines(into_symmetric(of_bytes(CollectiveKind::all_gather, 8 * kMiB - 1))));
    auto const exchanged = of_bytes(CollectiveKind::all_to_all, ranks * 8 * kMiB);
    EXPECT_TRUE(limits.is_for_engines(into_symmetric(exchanged)));
    // No kernel of ours carries them out above 64 MiB, but copy engines do.
    auto const huge = of_bytes(CollectiveKind::all_gather, 1024 * kMiB);
    EXPECT_FALSE(limits.serves(huge));
    EXPECT_TRUE(limits.serves(into_symmetric(huge)));
    EXPECT_TRUE(limits.is_large(static_cast<std::size_t>(ranks * 8 * kMiB)));
    EXPECT_FALSE(limits.is_large(static_cast<std::size_t>(ranks * 8 * kMiB - 1)));
  }
}

TEST(MailLimitsTest, copy_engines_take_small_outputs_if_they_are_asked_for) {
  MailLimits const limits{.ranks = 2, .uses_engines = true};
  for (auto const kind : {CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
    EXPECT_TRUE(limits.is_for_engines(into_symmetric(of_bytes(kind, 16))));
    EXPECT_FALSE(limits.is_for_engines(of_bytes(kind, 16)));
  }
  for (auto const kind : {CollectiveKind::broadcast,
                          CollectiveKind::all_reduce,
                          CollectiveKind::reduce_scatter,
                          CollectiveKind::all_to_all_counted}) {
    EXPECT_FALSE(limits.is_for_engines(into_symmetric(of_bytes(kind, 1024 * kMiB))));
  }
}

}  // namespace
}  // namespace msstream::comm::detail
