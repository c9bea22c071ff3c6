// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/environment.hpp"

#include "base/temporary_folder.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <string>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;

/// Sets a variable of the process for the test.
class SetVariable {
 public:
  SetVariable(char const* name, char const* value) : name_(name) { ::setenv(name, value, 1); }
  SetVariable(SetVariable const&) = delete;
  SetVariable& operator=(SetVariable const&) = delete;
  ~SetVariable() { ::unsetenv(name_); }

 private:
  char const* name_;
};

TEST(DoctorEnvironment, every_refused_value_is_named) {
  SetVariable const groups("MSSTREAM_STREAM_GROUPS", "999");
  SetVariable const pools("MSSTREAM_MEMORY_POOLS", "many");
  SetVariable const mode("MSSTREAM_CHECK_MODE", "loud");
  SetVariable const schedule("MSSTREAM_SIM_SCHEDULE", "sometimes");
  SetVariable const timeout("MSSTREAM_COMM_TIMEOUT_S", "0");
  SetVariable const good("MSSTREAM_MERGE_STREAMS", "yes");
  auto const facts = read_environment();
  EXPECT_EQ(facts.refused.size(), 5U);
  auto const lines = environment_lines(facts);
  auto const bad = tally_of(lines).bad;
  EXPECT_EQ(bad, 5);
  for (auto const& line : lines) {
    if (line.thing == "MSSTREAM_STREAM_GROUPS") {
      EXPECT_EQ(line.value, "999");
      EXPECT_THAT(line.advice, HasSubstr("an integer from 1 to 256"));
    }
  }
  // Measurements behind run with the default.
  EXPECT_EQ(std::getenv("MSSTREAM_STREAM_GROUPS"), nullptr);
  EXPECT_STREQ(std::getenv("MSSTREAM_MERGE_STREAMS"), "yes");
}

TEST(DoctorEnvironment, variables_that_the_library_does_not_read_are_noted) {
  auto const lines = environment_lines({.variables = {{"MSSTREAM_STREAM_GROUP", "4"}}});
  auto const line = the_line(lines, "unknown-variable");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("did you mean MSSTREAM_STREAM_GROUPS?"));
  EXPECT_EQ(tally_of(environment_lines({})).note, 0);
}

TEST(DoctorEnvironment, the_library_reads_no_variable_that_is_unknown_here) {
  auto const page = msstream::testing::read_all(MSSTREAM_SOURCE_FOLDER "/docs/state.md");
  std::regex const variable("`(MSSTREAM_[A-Z_]+)`");
  int count = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), variable), end; it != end; ++it) {
    auto const name = (*it)[1].str();
    if (name != "MSSTREAM_TEST_SWITCHES") {  // a definition of tests
      EXPECT_TRUE(std::ranges::binary_search(known_variables(), std::string_view(name))) << name;
      ++count;
    }
  }
  EXPECT_GT(count, 25);
}

TEST(DoctorEnvironment, variables_that_cost_time_are_slow) {
  auto lines = environment_lines({.variables = {{"CUDA_LAUNCH_BLOCKING", "1"}}});
  EXPECT_EQ(level_of(lines, "cuda-variable"), Level::slow);
  lines = environment_lines({.variables = {{"CUDA_LAUNCH_BLOCKING", "0"}}});
  EXPECT_EQ(worst_of(lines), Level::ok);
  lines = environment_lines({.variables = {{"MSSTREAM_CHECK", "1"}}});
  EXPECT_EQ(level_of(lines, "checking"), Level::slow);
}

TEST(DoctorEnvironment, zero_is_a_value_of_variables_that_choose) {
  for (auto const* const name : {"NVIDIA_TF32_OVERRIDE", "CUDA_VISIBLE_DEVICES"}) {
    auto const lines = environment_lines({.variables = {{name, "0"}}});
    EXPECT_EQ(the_line(lines, "cuda-variable").thing, name);
    EXPECT_EQ(worst_of(environment_lines({.variables = {{name, ""}}})), Level::ok);
  }
}

TEST(DoctorEnvironment, hardware_queues_have_a_range) {
  auto const level = [](char const* value) {
    return level_of(environment_lines({.variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", value}}}),
                    "max-connections");
  };
  EXPECT_EQ(level("32"), Level::ok);
  EXPECT_EQ(level("1"), Level::slow);
  EXPECT_EQ(level("33"), Level::bad);
  EXPECT_EQ(level("many"), Level::bad);
  EXPECT_EQ(level_of(environment_lines({}), "max-connections"), Level::ok);
}

}  // namespace
}  // namespace msstream::doctor
