// SPDX-License-Identifier: Apache-2.0
#include "order/access_log.hpp"

#include "order/positions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace msstream::order {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::positions;
using ::testing::UnorderedElementsAre;

std::vector<Position> before_read(AccessLog const& log) {
  PositionSet needed;
  log.add_hazards_of_read(needed);
  return positions(needed);
}
std::vector<Position> before_write(AccessLog const& log) {
  PositionSet needed;
  log.add_hazards_of_write(needed);
  return positions(needed);
}

TEST(AccessLog, of_untouched_memory_needs_nothing) {
  AccessLog const log;
  EXPECT_THAT(before_read(log), IsEmpty());
  EXPECT_THAT(before_write(log), IsEmpty());
}

TEST(AccessLog, orders_reads_and_writes_after_the_last_write) {
  AccessLog log;
  log.note_write({0, 1});
  log.note_write({1, 3});
  EXPECT_THAT(before_read(log), ElementsAre(Position{1, 3}));
  EXPECT_THAT(before_write(log), ElementsAre(Position{1, 3}));
}

TEST(AccessLog, counts_writes_of_all_kinds) {
  AccessLog log;
  EXPECT_EQ(log.write_count(), 0U);
  log.note_read({0, 1});
  EXPECT_EQ(log.write_count(), 0U);
  log.note_write({0, 2});
  log.note_write({0, 2});
  log.note_unordered_write({1, 1});
  EXPECT_EQ(log.write_count(), 3U);
  log.clear();
  log.note_all_of(AccessLog());
  EXPECT_EQ(log.write_count(), 3U);
}

TEST(AccessLog, does_not_order_reads_after_reads) {
  AccessLog log;
  log.note_read({0, 1});
  log.note_read({1, 1});
  EXPECT_THAT(before_read(log), IsEmpty());
}

TEST(AccessLog, orders_a_write_after_all_reads_since_the_last_write_and_after_that_write) {
  AccessLog log;
  log.note_read({5, 1});
  log.note_write({0, 1});
  log.note_read({1, 4});
  log.note_read({2, 6});
  EXPECT_THAT(before_write(log),
              UnorderedElementsAre(Position{0, 1}, Position{1, 4}, Position{2, 6}));
  log.note_write({3, 1});
  EXPECT_TRUE(log.reads().empty());
  EXPECT_THAT(before_write(log), ElementsAre(Position{3, 1}));
}

TEST(AccessLog, keeps_unordered_writes_beside_each_other) {
  AccessLog log;
  log.note_write({0, 1});
  log.note_unordered_write({1, 2});
  log.note_unordered_write({2, 3});
  EXPECT_THAT(before_read(log),
              UnorderedElementsAre(Position{0, 1}, Position{1, 2}, Position{2, 3}));
  log.note_write({3, 1});
  EXPECT_THAT(before_read(log), ElementsAre(Position{3, 1}));
}

TEST(AccessLog, adds_to_what_is_needed_already) {
  AccessLog first;
  first.note_write({0, 2});
  AccessLog second;
  second.note_write({0, 5});
  PositionSet needed;
  first.add_hazards_of_read(needed);
  second.add_hazards_of_write(needed);
  EXPECT_THAT(positions(needed), ElementsAre(Position{0, 5}));
}

TEST(AccessLog, stays_as_small_as_the_number_of_streams_over_a_million_reads) {
  constexpr StreamIndex kStreams = 16;
  AccessLog log;
  log.note_write({0, 1});
  for (std::uint64_t number = 2; number < 1'000'000; ++number) {
    log.note_read({static_cast<StreamIndex>(number % kStreams), number});
  }
  EXPECT_EQ(log.reads().size(), kStreams);
  EXPECT_EQ(log.writes().size(), 1U);
}

}  // namespace
}  // namespace msstream::order
