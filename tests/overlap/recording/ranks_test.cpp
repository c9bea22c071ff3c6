// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/ranks.hpp"

#include "overlap/recording/collective_matches.hpp"

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
  ranks[1].activities.resize(3);
  EXPECT_FALSE(align_ranks(ranks));
  EXPECT_EQ(ranks[1].activities[0].time.end, 1'500'000);
  EXPECT_TRUE(ranks[1].notes.empty());
}

/// Returns recordings of two ranks without sequence numbers, the second one late by 3 ms.
std::vector<Recording> ranks_without_numbers() {
  std::vector<Recording> ranks;
  ranks.push_back(rank_with_collectives(0, 0, 10'000));
  ranks.push_back(rank_with_collectives(1, 3'000'000, 200'000));
  for (auto& rank : ranks) {
    for (auto& collective : rank.collectives) {
      collective.sequence = kUnknown;
    }
  }
  return ranks;
}

TEST(OverlapRanks, collectives_without_numbers_match_by_their_order) {
  auto ranks = ranks_without_numbers();
  auto const matches = match_collectives(ranks);
  ASSERT_EQ(matches.collectives.size(), 4U);
  EXPECT_TRUE(matches.doubts.empty());
  for (Index i = 0; i < 4; ++i) {
    auto const& match = matches.collectives[i];
    EXPECT_TRUE(match.by_order);
    ASSERT_EQ(match.parts.size(), 2U);
    EXPECT_EQ(match.parts[0].activity, i);
    EXPECT_EQ(match.parts[1].activity, i);
  }
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[0].activities[3].time.end, ranks[1].activities[3].time.end);
}

TEST(OverlapRanks, collectives_without_numbers_move_no_clock_that_is_known) {
  auto ranks = ranks_without_numbers();
  // Rank 1 was recorded a step later: its first collective is the second one of rank 0.
  move_times(ranks[1], 1'000'000);
  ranks[0].start_unix_ns = ranks[1].start_unix_ns = 1'800'000'000'000'000'000;
  auto const end = ranks[1].activities[0].time.end;
  ASSERT_TRUE(align_ranks(ranks));
  EXPECT_EQ(ranks[1].activities[0].time.end, end);
  EXPECT_THAT(ranks[1].notes, Contains(HasSubstr("its clock was aligned by Unix times")));
}

TEST(OverlapRanks, collectives_of_other_counts_kinds_or_bytes_do_not_match) {
  for (int const what : {0, 1, 2}) {
    auto ranks = ranks_without_numbers();
    if (what == 0) {
      ranks[1].activities.resize(3);
    } else if (what == 1) {
      ranks[1].collectives[2].name = ranks[1].names.id_of("allgather");
    } else {
      ranks[0].collectives[2].bytes = 4'000;
      ranks[1].collectives[2].bytes = 8'000;
    }
    auto const matches = match_collectives(ranks);
    EXPECT_TRUE(matches.collectives.empty()) << what;
    EXPECT_THAT(matches.doubts, Contains(HasSubstr("which are one cannot be told"))) << what;
  }
}

TEST(OverlapRanks, each_communicator_matches_by_itself) {
  auto ranks = ranks_without_numbers();
  for (auto& rank : ranks) {
    rank.collectives[1].group = rank.collectives[3].group = rank.names.id_of("tensor parallel");
  }
  ranks[1].activities.resize(3);  // one of "tensor parallel" is missing
  auto const matches = match_collectives(ranks);
  ASSERT_EQ(matches.collectives.size(), 2U);
  EXPECT_EQ(matches.collectives[1].parts[1].activity, 2U);
  ASSERT_EQ(matches.doubts.size(), 1U);
  EXPECT_THAT(matches.doubts[0], HasSubstr("the process group tensor parallel, rank 0 recorded 2"));
}

TEST(OverlapRanks, groups_of_one_name_with_other_members_are_others) {
  auto ranks = ranks_without_numbers();
  for (auto& rank : ranks) {
    for (auto& collective : rank.collectives) {
      collective.members = rank.names.id_of(rank.rank == 0 ? "[0, 1]" : "[2, 3]");
    }
  }
  EXPECT_TRUE(match_collectives(ranks).collectives.empty());
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
