// SPDX-License-Identifier: Apache-2.0
#include "memory/reuse/tagged_stress.hpp"

#include "base/many.hpp"
#include "memory/runtimes.hpp"

namespace msstream::testing {
namespace {

using R = Tried<Host>;

TEST(TaggedStress, a_million_operations_on_small_blocks_see_their_own_tags) {
  auto const options = stress_of_small_blocks(many_at_night(1'000'000));
  expect_own_tags(tagged_stress<R, HostTagKernels>(options), options);
}

TEST(TaggedStress, operations_on_blocks_that_are_cut_and_join_see_their_own_tags) {
  auto const options = stress_of_large_blocks(many_at_night(300'000));
  expect_own_tags(tagged_stress<R, HostTagKernels>(options), options);
}

TEST(TaggedStressTwin, without_waits_operations_see_the_tags_of_others) {
  auto const outcome = tagged_stress<HostWithoutWaits, HostTagKernels>(stress_without_order());
  EXPECT_GT(outcome.mismatches, 0);
}

}  // namespace
}  // namespace msstream::testing
