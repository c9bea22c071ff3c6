// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/buckets.hpp>

#include <gtest/gtest.h>

namespace msstream::serve {
namespace {

using std::chrono::nanoseconds;

TEST(Buckets, a_query_goes_into_the_least_that_holds_it) {
  Buckets const buckets({4, 16, 64});
  EXPECT_EQ(buckets.count(), 3U);
  EXPECT_EQ(buckets.largest(), 64);
  EXPECT_EQ(buckets.holding(1), 0U);
  EXPECT_EQ(buckets.holding(4), 0U);
  EXPECT_EQ(buckets.holding(5), 1U);
  EXPECT_EQ(buckets.holding(16), 1U);
  EXPECT_EQ(buckets.holding(64), 2U);
}

TEST(Buckets, times_are_learnt_a_bucket_and_follow_what_changes) {
  Buckets buckets({4, 16});
  EXPECT_EQ(buckets.expected_ns(0), 1);
  buckets.note(0, nanoseconds(800));
  EXPECT_EQ(buckets.expected_ns(0), 800);
  EXPECT_EQ(buckets.expected_ns(1), 1);
  buckets.note(0, nanoseconds(1600));
  EXPECT_EQ(buckets.expected_ns(0), 900);
  for (int i = 0; i < 100; ++i) {
    buckets.note(0, nanoseconds(80'000));
  }
  EXPECT_GT(buckets.expected_ns(0), 79'000);
  EXPECT_LE(buckets.expected_ns(0), 80'000);
  buckets.note(1, nanoseconds(0));
  EXPECT_EQ(buckets.expected_ns(1), 1);
}

TEST(Buckets, what_cannot_be_over_yet_is_not_asked_for) {
  Buckets buckets({4});
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(0));
  buckets.note(0, nanoseconds(800));
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(700));
  buckets.note(0, nanoseconds(400));
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(350)) << "as soon as it has ever been of late";
  buckets.note(0, nanoseconds(6800));
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(434)) << "and later by little";
  buckets.note(0, std::chrono::seconds(1), /*at_once=*/true);
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(434)) << "nobody knows since when it was over";
  buckets.note(0, nanoseconds(434), /*at_once=*/true);
  EXPECT_LT(buckets.ask_after(0), nanoseconds(200)) << "was over before anybody asked";
  buckets.forget();
  EXPECT_EQ(buckets.ask_after(0), nanoseconds(0));
  buckets.note(0, std::chrono::seconds(10));
  EXPECT_EQ(buckets.ask_after(0), std::chrono::milliseconds(1));
}

TEST(Buckets, of_another_model_nothing_is_known) {
  Buckets buckets({4, 16});
  buckets.note(0, nanoseconds(800));
  buckets.note(1, nanoseconds(900));
  buckets.forget();
  EXPECT_EQ(buckets.expected_ns(0), 1);
  EXPECT_EQ(buckets.expected_ns(1), 1);
  buckets.note(1, nanoseconds(50));
  EXPECT_EQ(buckets.expected_ns(1), 50);
}

}  // namespace
}  // namespace msstream::serve
