// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/child.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <system_error>

namespace msstream::doctor {
namespace {

auto soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

TEST(DoctorChild, lines_go_both_ways) {
  Child child({"/bin/sh", "-c", "read x; echo \"$x $NAME\"; printf end; exit 3"},
              {.variables = {{"NAME", "value"}}});
  child.write("hello\n");
  EXPECT_EQ(child.read_line(soon()), "hello value");
  EXPECT_THROW(static_cast<void>(child.read_line(soon())), std::runtime_error);  // no whole line
  EXPECT_EQ(child.wait(soon()), 3);
}

TEST(DoctorChild, one_that_does_not_answer_is_given_up) {
  // It waits for its input, and ends with it.
  Child child({"/bin/sh", "-c", "cat"}, {.own_group = true});
  EXPECT_THROW(static_cast<void>(child.read_line(std::chrono::steady_clock::now())),
               std::runtime_error);
  EXPECT_EQ(child.wait(soon()), 0);
}

TEST(DoctorChild, one_that_hangs_is_killed_at_the_deadline) {
  Child child({"/bin/sh", "-c", "exec tail -f /dev/null"}, {});
  EXPECT_EQ(child.wait(std::chrono::steady_clock::now()), 128 + 9);
}

TEST(DoctorChild, a_program_that_is_not_there_is_an_error) {
  EXPECT_THROW(Child({"/no/such/program"}), std::system_error);
}

}  // namespace
}  // namespace msstream::doctor
