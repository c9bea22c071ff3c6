// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/start_thread.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <system_error>

namespace msstream::testing {
namespace {

/// A thread type whose constructor fails, as on a system that cannot start another thread.
struct RefusedThread {
  template <class Work>
  explicit RefusedThread(Work&& /*work*/) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
};

TEST(StartThread, says_what_the_thread_was_for_and_which_limits_count) {
  try {
    (void)msstream::detail::start_thread<RefusedThread>("a stream", [] {});
    FAIL() << "expected an exception";
  } catch (std::system_error const& error) {
    EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again);
    EXPECT_THAT(error.what(),
                ::testing::MatchesRegex("cannot start a thread for a stream .*ulimit -u.*ulimit "
                                        "-v.*: Resource temporarily unavailable"));
  }
}

TEST(StartThread, runs_the_work) {
  int runs = 0;
  msstream::detail::start_thread("a test", [&] { ++runs; }).join();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace msstream::testing
