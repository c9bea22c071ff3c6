// SPDX-License-Identifier: Apache-2.0
#include <msstream/trace/name_scope.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

namespace msstream {
namespace {

TEST(NameScope, QualifiesNamesByItsPath) {
  EXPECT_EQ(NameScope::current(), "");
  EXPECT_EQ(NameScope::qualify("score"), "score");
  {
    NameScope const outer("attention");
    EXPECT_EQ(NameScope::qualify("score"), "attention/score");
    {
      NameScope const inner("user_item");
      EXPECT_EQ(NameScope::current(), "attention/user_item");
      EXPECT_EQ(NameScope::qualify("score"), "attention/user_item/score");
    }
    EXPECT_EQ(NameScope::current(), "attention");
  }
  EXPECT_EQ(NameScope::current(), "");
}

TEST(NameScope, IsSeenByItsThreadAlone) {
  NameScope const mine("mine");
  std::thread([] {
    EXPECT_EQ(NameScope::current(), "");
    NameScope const theirs("theirs");
    EXPECT_EQ(NameScope::current(), "theirs");
  }).join();
  EXPECT_EQ(NameScope::current(), "mine");
}

TEST(NameScope, KeepsItsOwnCopyOfTheSegment) {
  std::optional<std::string> segment(
      "a segment that is too long to be stored in the string itself");
  NameScope const scope(*segment);
  std::string const expected = *segment;
  segment.reset();
  EXPECT_EQ(NameScope::current(), expected);
}

}  // namespace
}  // namespace msstream
