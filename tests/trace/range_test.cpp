// SPDX-License-Identifier: Apache-2.0
#include <msstream/trace/name_scope.hpp>
#include <msstream/trace/range.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace msstream {
namespace {

TEST(Range, destroyed_on_another_thread_it_stays_open_until_its_thread_is_told) {
  auto strayed = std::make_unique<trace::Range>("load batch");
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    trace::Range const theirs("theirs");
    strayed.reset();
    EXPECT_NO_THROW(detail::GuardedThread::refuse_lost("of another thread"));
  }).join();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("Range 'load batch', opened by thread"),
            std::string::npos);
  EXPECT_THROW(detail::GuardedThread::refuse_lost("next"), std::logic_error);
  EXPECT_NO_THROW(detail::GuardedThread::refuse_lost("next"));
}

TEST(Range, is_no_name_scope) {
  trace::Range const range("load batch");
  EXPECT_EQ(NameScope::current(), "");
}

}  // namespace
}  // namespace msstream
