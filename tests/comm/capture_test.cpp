// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "memory/journal.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

template <class R>
class CapturedCollectives : public RanksTest<R> {};
TYPED_TEST_SUITE(CapturedCollectives, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(CapturedCollectives, meet_the_other_ranks_at_each_replay) {
  static constexpr int kReplays = 20;
  on_ranks<TypeParam>(3, [](Rank<TypeParam> const& rank) {
    int const ranks = rank.size();
    auto const& first = rank.communicator;
    comm::Communicator<TypeParam> const second(rank.device, rank.world, {.name = "second"});
    auto const x = rank.tensor(std::vector<float>{1});
    auto const y = rank.tensor(std::vector<float>{2});
    auto const all_y = rank.template poisoned<float>(ranks);
    auto const z = rank.tensor(std::vector<float>{0});
    // Each replay on the host runs the operations in another order that the graph leaves open. The
    // ranks have different graphs, so that they would choose different orders of the communicators.
    CapturedStep<TypeParam> step(rank.device, [&] {
      for (int i = 0; i < rank.rank(); ++i) {
        issue("own", writes(z), on_host(rank.device, [] {}));
      }
      all_reduce(first, x, comm::Reduction::mean);
      all_gather(second, y, all_y);
      all_reduce(first, x, comm::Reduction::max);
    });
    for (int i = 0; i < kReplays; ++i) {
      auto const value = static_cast<float>(i * ranks + rank.rank());
      copy(x, rank.tensor(std::vector<float>{value}));
      copy(y, rank.tensor(std::vector<float>{value}));
      step.replay();
      auto const own = rank.tensor(std::vector<float>{1});
      all_reduce(first, own);  // follows the replay, which uses the communicator
      ASSERT_EQ(to_host(own)[0], static_cast<float>(ranks));
      ASSERT_EQ(to_host(x)[0], static_cast<float>(i * ranks) + static_cast<float>(ranks - 1) / 2);
      for (int other = 0; other < ranks; ++other) {
        ASSERT_EQ(to_host(all_y)[static_cast<std::size_t>(other)],
                  static_cast<float>(i * ranks + other));
      }
    }
  });
}

TYPED_TEST(CapturedCollectives, a_communicator_is_not_made_in_a_capture) {
  comm::run_as_threads(1, [](comm::World const& world) {
    Device<TypeParam> const device;
    EXPECT_THAT(message_of<std::logic_error>([&] {
                  CapturedStep<TypeParam> const step(
                      device, [&] { comm::Communicator<TypeParam> const inside(device, world); });
                }),
                HasSubstr("inside a capture"));
  });
}

}  // namespace
}  // namespace msstream::testing
