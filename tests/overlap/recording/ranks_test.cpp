// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Returns the recording of a rank with four collectives that end at 1, 2, 3 and 4 ms plus `later`
/// on its clock, each begun `begun` before its end.
Recording rank_with_collectives(int rank, Ns later, Ns begun) {
  Recording recording;
  recording.rank = rank;
  recording.origin = "rank" + std::to_string(rank);
  recording.devices.resize(1);
  recording.streams.resize(1);
  auto const name = recording.names.id_of("allreduce");
  for (Ns i = 1; i <= 4; ++i) {
    recording.collectives.push_back({.name = name, .sequence = i});
    Ns const end = i * 1'000'000 + later;
    recording.activities.push_back(
        {.time = {end - begun, end}, .stream = 0, .collective = static_cast<Index>(i - 1)});
  }
  return recording;
}

TEST(OverlapRanks, unix_times_align_them) {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, -500'000, 200'000));
  ranks[0].start_unix_ns = 1'800'000'000'000'000'000;
  ranks[1].start_unix_ns = 1'800'000'000'000'500'000;
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[0].activities[0].time, (Interval{990'000, 1'000'000}));
  EXPECT_EQ(ranks[1].activities[0].time, (Interval{800'000, 1'000'000}));
  EXPECT_EQ(ranks[0].start_unix_ns, ranks[1].start_unix_ns);
  EXPECT_THAT(ranks[1].notes, Contains(HasSubstr("rank 1: its clock was aligned by Unix times")));
}

TEST(OverlapRanks, collectives_end_together_if_clocks_differ) {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, 3'000'000, 200'000));
  ranks[0].start_unix_ns = ranks[1].start_unix_ns = 1'800'000'000'000'000'000;
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[0].activities[3].time.end, ranks[1].activities[3].time.end);
  EXPECT_THAT(ranks[1].notes, Contains(HasSubstr("moved by -3.00 ms such that")));
}

TEST(OverlapRanks, without_unix_times_collectives_alone_align) {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, 40'000, 200'000));
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[0].activities[3].time.end, ranks[1].activities[3].time.end);
}

TEST(OverlapRanks, nothing_in_common_leaves_them_as_they_are) {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, 500'000, 10'000));
  for (auto& collective : ranks[1].collectives) {
    collective.sequence = kUnknown;
  }
  EXPECT_FALSE(align_ranks(ranks));
  EXPECT_EQ(ranks[1].activities[0].time.end, 1'500'000);
  EXPECT_TRUE(ranks[1].notes.empty());
}

TEST(OverlapRanks, one_file_has_one_clock) {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, 15'000, 10'000));
  ranks[1].origin = ranks[0].origin;
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[1].activities[0].time.end, 1'015'000) << "15 us may be the ranks' own difference";
}

}  // namespace
}  // namespace msstream::overlap
