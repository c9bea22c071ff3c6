// SPDX-License-Identifier: Apache-2.0
#include "base/run_program.hpp"
#include "comm/process_store.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#if MSSTREAM_CUDA

namespace msstream::testing {
namespace {

using comm::PeerLost;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The variable that says what a process does which ProcessRanks has started.
constexpr char const* kPart = "MSSTREAM_TEST_PART";

/// Ranks that are processes of this program, each with a GPU.
class ProcessRanks : public RanksTest<Cuda> {
 protected:
  /// Starts two ranks that do `part`, by the variables of torchrun, and expects that both succeed.
  static void expect_success(std::string const& part) {
    auto const port = std::to_string(comm::detail::TcpStoreServer(0).port());
    std::vector<std::jthread> threads;
    for (auto const* const rank : {"0", "1"}) {
      threads.emplace_back([=] {
        std::string const own(rank);
        auto const ended = run_program("/proc/self/exe",
                                       {"--gtest_filter=ProcessRank.plays_its_part"},
                                       {.environment = {"RANK=" + own,
                                                        "LOCAL_RANK=" + own,
                                                        "WORLD_SIZE=2",
                                                        "MASTER_ADDR=127.0.0.1",
                                                        "MSSTREAM_COMM_PORT=" + port,
                                                        std::string(kPart) + "=" + part}});
        EXPECT_EQ(ended.status, 0) << "rank " << rank << ":\n" << ended.out << ended.err;
      });
    }
  }
};

TEST_F(ProcessRanks, have_collectives_eager_and_captured) {
  expect_success("collectives");
}

TEST_F(ProcessRanks, lose_a_process_that_dies) {
  expect_success("one dies");
}

TEST_F(ProcessRanks, lose_a_process_that_does_not_come) {
  expect_success("one does not come");
}

void have_collectives(Rank<Cuda> const& rank) {
  comm::Communicator<Cuda> const other(rank.device, rank.world, {.name = "other"});
  auto const value = static_cast<float>(rank.rank());
  auto const x = rank.tensor(std::vector<float>(1000, value));
  all_reduce(rank.communicator, x);
  EXPECT_EQ(to_host(x), std::vector<float>(1000, 1));
  auto const y = rank.tensor(std::vector<float>{value, value + 10});
  auto const z = rank.poisoned<float>(2);
  CapturedStep<Cuda> step(rank.device, [&] {
    all_to_all(other, y, z);
    all_reduce(rank.communicator, z);
  });
  for (int i = 0; i < 3; ++i) {
    step.replay();
    EXPECT_EQ(to_host(z), (std::vector<float>{10, 12}));
  }
  rank.device.synchronize(barrier(rank.communicator));
}

/// Expects that the communicator loses rank 1 in a collective, and that the device stays usable.
void expect_loss(Rank<Cuda> const& rank, std::string const& why) {
  auto const x = rank.tensor(std::vector<float>{1});
  try {
    all_reduce(rank.communicator, x);
    rank.communicator.synchronize();
    ADD_FAILURE() << "expected a PeerLost";
  } catch (PeerLost const& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 is lost"), HasSubstr(why)));
  }
  EXPECT_EQ(to_host(rank.tensor(std::vector<float>{3}))[0], 3);
}

void lose_one_that_dies(Rank<Cuda> const& rank) {
  rank.device.synchronize(barrier(rank.communicator));
  if (rank.rank() == 1) {
    ::_exit(0);
  }
  expect_loss(rank, "its process has ended");
}

void lose_one_that_does_not_come(Rank<Cuda> const& rank) {
  if (rank.rank() == 0) {
    expect_loss(rank, "no collective in flight");
    return;
  }
  for (bool is_told = false; !is_told;) {
    try {
      rank.communicator.synchronize();
    } catch (PeerLost const& error) {
      EXPECT_EQ(error.rank(), 1);
      is_told = true;
    }
  }
}

TEST(ProcessRank, plays_its_part) {
  auto const* const part = std::getenv(kPart);
  if (part == nullptr) {
    GTEST_SKIP() << "only for processes that ProcessRanks has started";
  }
  auto const world = comm::World::from_environment();
  auto const device = comm::device_of<Cuda>(world);
  bool const does_not_come = std::string_view(part) == "one does not come";
  auto const timeout = std::chrono::seconds(does_not_come ? 2 : 120);
  Rank<Cuda> const rank{
      world, device, comm::Communicator<Cuda>(device, world, {.timeout = timeout})};
  if (does_not_come) {
    lose_one_that_does_not_come(rank);
  } else if (std::string_view(part) == "one dies") {
    lose_one_that_dies(rank);
  } else {
    have_collectives(rank);
  }
}

}  // namespace
}  // namespace msstream::testing

#endif
