// SPDX-License-Identifier: Apache-2.0
#include "serve/buckets.hpp"

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
