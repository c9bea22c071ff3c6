// SPDX-License-Identifier: Apache-2.0
#include "step/step_units.hpp"

#include "step/trace/step_traces.hpp"

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

/// Makes a step of operations with the given names, cuts it into units at each depth of name
/// scopes, and returns the number of units at each depth.
std::vector<std::size_t> sizes_of_cuts(std::vector<std::string> const& names) {
  TraceMaker maker;
  for (auto const& name : names) {
    maker.add(name, 0, 1000, {}, {0});
  }
  std::vector<std::size_t> sizes;
  for (auto const& units : cuts_of(maker.run())) {
    sizes.push_back(units.count());
  }
  return sizes;
}

TEST(StepUnits, are_cut_at_every_depth_of_scopes) {
  EXPECT_THAT(sizes_of_cuts({"a/x/op", "a/y/op", "b/x/op", "b/x/other"}), ElementsAre(2, 3, 4));
  EXPECT_THAT(sizes_of_cuts({"op", "other", "op"}), ElementsAre(2)) << "no scopes: by name";
  EXPECT_THAT(sizes_of_cuts({}), ElementsAre(0));
}

TEST(StepUnits, are_found_below_scopes_around_all) {
  EXPECT_THAT(sizes_of_cuts({"model/net/a/x/op", "model/net/a/y/op", "model/net/b/x/op"}),
              ElementsAre(1, 2, 3, 3));
}

TEST(StepUnits, a_gradient_belongs_to_what_it_is_the_gradient_of) {
  TraceMaker maker;
  for (auto const* const name : {"a/op", "join", "gradients/join", "gradients/a/op", "b/op"}) {
    maker.add(name, 0, 1000, {}, {0});
  }
  auto const cuts = cuts_of(maker.run());
  ASSERT_EQ(cuts.size(), 2U);
  EXPECT_THAT(cuts[0].of, ElementsAre(0, 1, 1, 0, 2));
  EXPECT_THAT(cuts[0].is_trunk, ElementsAre(false, true, false));
  EXPECT_THAT(cuts[0].busy_ns, ElementsAre(2000, 2000, 1000));
  EXPECT_THAT(cuts[1].of, ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace msstream::testing
