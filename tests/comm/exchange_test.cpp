// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <msstream/comm/communicator.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class R>
class ExchangeTest : public ::testing::Test {};
TYPED_TEST_SUITE(ExchangeTest, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(ExchangeTest, all_ranks_get_the_texts_of_all) {
  for (int const ranks : {1, 2, 4}) {
    on_ranks<TypeParam>(ranks, [&](Rank<TypeParam> const& rank) {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::string> expected;
        for (int other = 0; other < ranks; ++other) {
          expected.push_back(std::string(static_cast<std::size_t>(other), ' ') +
                             std::to_string(round));
        }
        auto const own = expected[static_cast<std::size_t>(rank.rank())];
        EXPECT_EQ(rank.communicator.any().exchange(own), expected);
      }
    });
  }
}

TYPED_TEST(ExchangeTest, a_rank_that_ends_its_communicator_is_named) {
  on_ranks<TypeParam>(3, [&](Rank<TypeParam> const& rank) {
    if (rank.rank() == 1) {
      return;
    }
    // Whether rank 1 has ended before or ends meanwhile.
    EXPECT_THAT(message_of<comm::PeerLost>([&] { (void)rank.communicator.any().exchange(""); }),
                AllOf(HasSubstr("rank 1 is lost: it has ended its communicator"),
                      HasSubstr("an exchange between the ranks")));
  });
}

TYPED_TEST(ExchangeTest, a_rank_that_does_not_come_in_time_is_named) {
  comm::run_as_threads(2, [&](comm::World const& world) {
    auto const device = comm::device_of<TypeParam>(world);
    comm::Communicator<TypeParam> const other(device, world, {.name = "other"});
    comm::Communicator<TypeParam> const communicator(
        device, world, {.timeout = std::chrono::milliseconds(20)});
    if (world.rank() == 0) {
      EXPECT_THAT(message_of<comm::PeerLost>([&] { (void)communicator.any().exchange(""); }),
                  HasSubstr("rank 1 is lost: it did not come within 0.02 s to an exchange"));
    }
    (void)other.any().exchange("");  // rank 1 stays until then
  });
}

}  // namespace
}  // namespace msstream::testing
