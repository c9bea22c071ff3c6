// SPDX-License-Identifier: Apache-2.0
#include <msstream/trace/name_scope.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace msstream {
namespace {

TEST(NameScope, qualifies_names_by_its_path) {
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

TEST(NameScope, is_seen_by_its_thread_alone) {
  NameScope const mine("mine");
  std::thread([] {
    EXPECT_EQ(NameScope::current(), "");
    NameScope const theirs("theirs");
    EXPECT_EQ(NameScope::current(), "theirs");
  }).join();
  EXPECT_EQ(NameScope::current(), "mine");
}

TEST(NameScope, keeps_its_own_copy_of_the_segment) {
  std::optional<std::string> segment(
      "a segment that is too long to be stored in the string itself");
  NameScope const scope(*segment);
  std::string const expected = *segment;
  segment.reset();
  EXPECT_EQ(NameScope::current(), expected);
}

TEST(NameScope, destroyed_on_another_thread_it_stays_open_until_its_thread_is_told) {
  auto strayed = std::make_unique<NameScope>("strayed");
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    NameScope const theirs("theirs");
    strayed.reset();
    EXPECT_EQ(NameScope::current(), "theirs");
    EXPECT_NO_THROW(detail::GuardedThread::refuse_lost("of another thread"));
  }).join();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("NameScope 'strayed', opened by thread"),
            std::string::npos);
  EXPECT_EQ(NameScope::current(), "strayed");
  NameScope const inner("inner");
  EXPECT_THROW(detail::GuardedThread::refuse_lost("next"), std::logic_error);
  EXPECT_EQ(NameScope::current(), "strayed/inner") << "the path of a scope that is open";
  EXPECT_NO_THROW(detail::GuardedThread::refuse_lost("next"));
}

/// Opens a name scope in its destructor. As a thread-local object made early, it is destroyed after
/// the library's thread-local guards.
struct OpensLate {
  explicit OpensLate(std::unique_ptr<NameScope>& into) : scope(into) {}
  ~OpensLate() {
    {
      NameScope const own("own");
      EXPECT_EQ(NameScope::current(), "own");
    }
    scope = std::make_unique<NameScope>("late");
    EXPECT_EQ(NameScope::current(), "late");
  }
  std::unique_ptr<NameScope>& scope;
};

TEST(NameScope, opened_by_a_thread_that_was_ending_it_may_be_destroyed_by_another) {
  std::unique_ptr<NameScope> strayed;
  std::thread([&] {
    thread_local OpensLate const late(strayed);  // made before the thread's guards; destroyed later
    NameScope const first("first");
  }).join();
  NameScope const mine("mine");
  ::testing::internal::CaptureStderr();
  strayed.reset();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("the NameScope 'late', opened at "),
            std::string::npos);
  EXPECT_EQ(NameScope::current(), "mine");
  EXPECT_NO_THROW(detail::GuardedThread::refuse_lost("next"));
}

}  // namespace
}  // namespace msstream
