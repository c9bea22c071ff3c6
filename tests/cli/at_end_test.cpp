// SPDX-License-Identifier: Apache-2.0
#include "cli/at_end.hpp"

#include "cli/failure_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::cli {
namespace {

using ::testing::ElementsAre;

TEST(CallAtEnd, calls_each_function_once_the_last_one_first) {
  std::vector<std::string> calls;
  call_at_end([&](std::exception_ptr const& failure) {
    calls.push_back(failure == nullptr ? "first" : failure_text(failure));
  });
  call_at_end([&](std::exception_ptr const&) {
    calls.emplace_back("second");
    throw std::logic_error("which is ignored");
  });
  end_with(nullptr);
  EXPECT_THAT(calls, ElementsAre("second", "first"));
  end_with(nullptr);
  EXPECT_EQ(calls.size(), 2U);
}

TEST(CallAtEnd, gives_the_failure) {
  std::string text;
  call_at_end([&](std::exception_ptr const& failure) { text = failure_text(failure); });
  end_with(std::make_exception_ptr(std::runtime_error("out of paper")));
  EXPECT_EQ(text, "out of paper");
}

}  // namespace
}  // namespace msstream::cli
