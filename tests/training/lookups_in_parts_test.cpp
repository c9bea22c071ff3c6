// SPDX-License-Identifier: Apache-2.0
#include "training/lookups_in_parts.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::training {
namespace {

/// A table of eight rows on one rank, of which each step looks up two.
class LookupsInPartsTest : public ::testing::TestWithParam<Lookahead> {
 protected:
  using Keys = std::vector<std::int64_t>;

  std::vector<float> look_up(Keys const& keys, std::optional<Keys> const& next_keys = {}) {
    auto const put = [&](Keys const& of) { return to_device(device_, of, {2}); };
    auto const bags_of = [](Tensor<std::int64_t, Host> const& ids) {
      return ops::TableBags<Host>{.ids = ids, .batch = 2};
    };
    return to_host(lookups_.lookup(tape_,
                                   pool_,
                                   put(keys),
                                   next_keys ? std::optional(put(*next_keys)) : std::nullopt,
                                   bags_of));
  }
  void end_step() {
    tape_.clear();
    lookups_.end_step();
  }

  Device<Host> device_;
  StreamPool<Host> pool_{device_, {.groups = 2, .log = nullptr}};
  GradientTape<Host> tape_{device_};
  LookupsInParts<Host> lookups_{
      ShardedTables<Host>({{.name = "table", .rows = 8, .width = 1}},
                          comm::Communicator<Host>(device_, {}, {.name = "tables"}),
                          {.most_samples = 2, .seed = 3}),
      GetParam()};
};

TEST_P(LookupsInPartsTest, take_what_was_sent_for_the_step_before_its_turn) {
  auto const first = look_up({0, 1});
  auto const second = look_up({2, 3});
  EXPECT_NE(first, second);
  end_step();
  EXPECT_FALSE(lookups_.is_ahead());

  EXPECT_EQ(look_up({0, 1}, Keys{2, 3}), first);
  end_step();
  EXPECT_TRUE(lookups_.is_ahead());
  // The keys that the step itself has are not sent again.
  EXPECT_EQ(look_up({6, 7}, Keys{0, 1}), second);
  end_step();
  EXPECT_EQ(look_up({6, 7}), first);
  end_step();
  EXPECT_FALSE(lookups_.is_ahead());
  EXPECT_EQ(look_up({2, 3}), second);
}

TEST_P(LookupsInPartsTest, of_a_test_leave_alone_what_was_sent) {
  auto const expected = look_up({2, 3});
  auto const of_test = look_up({4, 5});
  (void)look_up({0, 1}, Keys{2, 3});
  end_step();
  {
    GradientTape<Host>::Pause const no_gradients(tape_);
    EXPECT_EQ(look_up({4, 5}), of_test);
  }
  EXPECT_TRUE(lookups_.is_ahead());
  EXPECT_EQ(look_up({6, 7}), expected);
}

INSTANTIATE_TEST_SUITE_P(Ways,
                         LookupsInPartsTest,
                         ::testing::Values(Lookahead::ids, Lookahead::rows, Lookahead::stale_rows));

}  // namespace
}  // namespace msstream::training
