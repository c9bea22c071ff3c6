// SPDX-License-Identifier: Apache-2.0
// The stress of memory reuse notices when a mechanism of the reuse is off, on a runtime that checks
// nothing.
#include "memory/tagged_stress.hpp"
#include "trust/switched_off.hpp"

#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace msstream::testing {
namespace {

[[nodiscard]] std::int64_t mismatches() {
  return tagged_stress<Host, HostTagKernels>(stress_without_order()).mismatches;
}

TEST(ReuseMutation, TheStressFindsMemoryThatForgetsItsUses) {
  SwitchedOff const off(Mechanism::reuse_follows_uses);
  EXPECT_GT(mismatches(), 0);
}
TEST(ReuseMutation, TheStressFindsWaitsThatAreLeftOutTooEarly) {
  SwitchedOff const off(Mechanism::elision_by_number);
  EXPECT_GT(mismatches(), 0);
}
TEST(ReuseMutation, TheStressFindsNothingWhenAllWorks) {
  EXPECT_EQ(mismatches(), 0);
}

}  // namespace
}  // namespace msstream::testing
