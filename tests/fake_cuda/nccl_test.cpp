// SPDX-License-Identifier: Apache-2.0
// Tests of communicators between ranks that NCCL connects, with a fake NCCL whose ranks are threads
// that share one fake device. They show when the host waits and what it is told; collectives move
// no data.
#include "fake_cuda_fixture.hpp"
#include "fake_nccl.hpp"

#include <msstream/comm/collectives.hpp>

#include <nccl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace fake_cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Communicator = ms::comm::Communicator<ms::Cuda>;
using World = ms::comm::World;

constexpr auto kNoTimeout = std::chrono::hours(1);

class NcclTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    FakeCudaTest::TearDown();
    EXPECT_EQ(fake_nccl::live(), 0);
    EXPECT_THAT(fake_nccl::take_misuses(), IsEmpty());
  }
};

/// Returns the message of the exception that a call throws; empty if it throws none.
template <class Call>
std::string message_of(Call const& call) {
  try {
    call();
  } catch (std::exception const& error) {
    return error.what();
  }
  return {};
}

Communicator communicator(Device const& device,
                          World const& world,
                          std::chrono::nanoseconds timeout = kNoTimeout) {
  return Communicator(device, world, {.name = "own", .timeout = timeout});
}

TEST_F(NcclTest, collectives_are_one_call_each_and_communicators_end) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    auto const tensor = ms::zeros<float>(device, {4});
    auto const exchanged = ms::zeros<float>(device, {4});
    auto const parts = ms::zeros<float>(device, {8});
    auto const before = fake_nccl::calls("ncclAllReduce");
    for (int i = 0; i < 3; ++i) {
      ms::comm::all_reduce(own, tensor);
      ms::comm::all_gather(own, tensor, parts);
      ms::comm::reduce_scatter(own, parts, tensor);
      ms::comm::all_to_all(own, tensor, exchanged);
      ms::comm::broadcast(own, tensor);
      ms::comm::barrier(own);
    }
    own.synchronize();
    EXPECT_GE(fake_nccl::calls("ncclAllReduce") - before, 6U);
    EXPECT_EQ(fake_nccl::calls("ncclCommAbort"), 0U);
  });
}

TEST_F(NcclTest, gets_the_blocks_and_the_policy_that_options_choose) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    Communicator const own(device, world, {.most_sms = 16, .copy_engines = true});
    EXPECT_EQ(fake_nccl::blocks_and_policy(), std::pair(16, NCCL_CTA_POLICY_ZERO));
    Communicator const other(device, world, {.name = "other"});
    ms::comm::barrier(other);
    other.synchronize();
    ncclConfig_t const unset = NCCL_CONFIG_INITIALIZER;
    EXPECT_EQ(fake_nccl::blocks_and_policy(), std::pair(unset.maxCTAs, unset.CTAPolicy));
  });
}

TEST_F(NcclTest, settings_that_differ_between_ranks_are_told_to_all) {
  std::array<std::string, 2> messages;
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    messages.at(static_cast<std::size_t>(world.rank())) = message_of(
        [&] { Communicator const own(device, world, {.most_sms = 8 + 8 * world.rank()}); });
  });
  fake_nccl::end_constructors();
  constexpr char const* kWhy =
      "most_sms of 16, copy_engines false; expected those of rank 0: most_sms of 8, copy_engines "
      "false";
  EXPECT_THAT(messages[1], HasSubstr(kWhy));
  EXPECT_THAT(messages[0], AllOf(HasSubstr("rank 1 is lost"), HasSubstr(kWhy)));
}

TEST_F(NcclTest, symmetric_tensors_are_registered_until_they_end) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    std::optional<Communicator> own(communicator(device, world));
    std::optional<ms::Tensor<float, ms::Cuda>> longer;
    {
      auto const input = ms::comm::symmetric_tensor<float>(*own, {4});
      longer.emplace(ms::comm::symmetric_tensor<float>(*own, {2, 4}));
      auto const none = ms::comm::symmetric_tensor<float>(*own, {0, 4});
      EXPECT_EQ(none.count(), 0);
      ms::fill_bytes(input, 0);
      ms::comm::all_gather(*own, input, *longer);
      ms::comm::barrier(*own);
      own->synchronize();
      EXPECT_GE(fake_nccl::windows(), 2);
    }
    static_cast<void>(own->exchange("both have dropped one"));
    EXPECT_EQ(fake_nccl::windows(), 2);
    static_cast<void>(own->exchange("both have looked"));
    own.reset();
    EXPECT_EQ(ms::to_host(longer->rows(0, 1)).size(), 4U) << "outlives its communicator";
  });
  EXPECT_EQ(fake_nccl::calls("ncclCommWindowDeregister"), 2U);
  EXPECT_EQ(fake_nccl::calls("ncclCommWindowRegister"), 4U);
}

TEST_F(NcclTest, rows_with_counts_are_pushed_into_symmetric_tensors) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    auto const symmetric = ms::comm::symmetric_tensor<float>(own, {2, 2, 8, 3});
    auto const first = symmetric.rows(0, 1).reshaped({2, 8, 3});
    auto const second = symmetric.rows(1, 2).reshaped({2, 8, 3});
    auto const elsewhere = ms::zeros<float>(device, {2, 8, 3});
    auto const input = ms::zeros<float>(device, {2, 8, 3});
    auto const counts = ms::zeros<std::int64_t>(device, {2});
    auto const received = ms::zeros<std::int64_t>(device, {2});
    own.synchronize();
    auto const count_calls = [&](Floats const& output) {
      static_cast<void>(own.exchange("begin"));
      auto const sent = fake_nccl::calls("ncclSend");
      auto const met = fake_nccl::calls("ncclAllReduce");
      static_cast<void>(own.exchange("counted"));
      ms::comm::all_to_all(own, input, counts, output, received);
      own.synchronize();
      static_cast<void>(own.exchange("end"));
      return std::pair(fake_nccl::calls("ncclSend") - sent,
                       fake_nccl::calls("ncclAllReduce") - met);
    };
    // Two ranks send two counts each, and meet once behind their kernels.
    EXPECT_EQ(count_calls(first), std::pair(std::uint64_t{4}, std::uint64_t{2}));
    EXPECT_EQ(count_calls(second), std::pair(std::uint64_t{4}, std::uint64_t{2}));
    EXPECT_EQ(count_calls(elsewhere), std::pair(std::uint64_t{8}, std::uint64_t{0}))
        << "two ranks send two parts and two counts each";
  });
}

TEST_F(NcclTest, rows_that_only_some_ranks_would_push_are_told) {
  std::array<std::string, 2> messages;
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    auto const symmetric = ms::comm::symmetric_tensor<float>(own, {2, 2, 8});
    auto const input = ms::zeros<float>(device, {2, 8});
    auto const counts = ms::zeros<std::int64_t>(device, {2});
    auto const received = ms::zeros<std::int64_t>(device, {2});
    auto const output = symmetric.rows(world.rank(), world.rank() + 1).reshaped({2, 8});
    messages.at(static_cast<std::size_t>(world.rank())) = message_of([&] {
      ms::comm::all_to_all(own, input, counts, output, received);
      own.synchronize();
      static_cast<void>(own.exchange("a failure has come until then"));
    });
  });
  for (auto const& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("to symmetric place 0"), HasSubstr("symmetric place 64")));
  }
}

TEST_F(NcclTest, a_registration_that_fails_is_told_to_all_ranks) {
  std::array<std::string, 2> messages;
  std::atomic<int> made{0};
  fake_nccl::FailingCall const failing("ncclCommWindowRegister", 1);
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    messages.at(static_cast<std::size_t>(world.rank())) =
        message_of([&] { static_cast<void>(ms::comm::symmetric_tensor<float>(own, {4})); });
    made.fetch_add(1);
    while (made.load() < 2) {
      std::this_thread::yield();
    }
    EXPECT_EQ(ms::to_host(ms::zeros<float>(device, {4})).size(), 4U) << "the device stays usable";
  });
  EXPECT_THAT(messages[1], HasSubstr("symmetric_tensor(): NCCL: an error of the fake NCCL"));
  EXPECT_THAT(messages[0], AllOf(HasSubstr("rank 1"), HasSubstr("symmetric_tensor()")));
}

TEST_F(NcclTest, a_rank_whose_constructor_fails_ends_those_of_the_others) {
  fake_nccl::FailingCall const failing("ncclCommInitRankConfig", 1);
  std::array<std::string, 2> messages;
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    messages.at(static_cast<std::size_t>(world.rank())) =
        message_of([&] { static_cast<void>(communicator(device, world)); });
  });
  fake_nccl::end_constructors();
  EXPECT_THAT(messages[1],
              AllOf(HasSubstr("communicator 'own', rank 1 of 2: ncclCommInitRankConfig: NCCL: an "
                              "error of the fake NCCL"),
                    HasSubstr("a GPU of its own for each rank")));
  EXPECT_THAT(messages[0], AllOf(HasSubstr("rank 1 is lost"), HasSubstr("ncclCommInitRankConfig")));
}

TEST_F(NcclTest, a_first_collective_that_fails_ends_all_constructors) {
  fake_nccl::FailingCall const failing("ncclAllGather", 0);
  std::array<std::string, 2> messages;
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    messages.at(static_cast<std::size_t>(world.rank())) =
        message_of([&] { static_cast<void>(communicator(device, world)); });
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 0 of 2: all_gather: NCCL: an error"));
  EXPECT_THAT(messages[1], AllOf(HasSubstr("rank 0 is lost"), HasSubstr("all_gather")));
}

TEST_F(NcclTest, a_call_that_fails_is_told_to_all_ranks) {
  std::atomic<int> made{0};
  std::optional<fake_nccl::FailingCall> failing;
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    auto const tensor = ms::zeros<float>(device, {4});
    made.fetch_add(1);
    if (world.rank() == 0) {
      while (made.load() < 2) {
        std::this_thread::yield();
      }
      failing.emplace("ncclAllReduce", 0);
      EXPECT_THAT(message_of([&] { ms::comm::all_reduce(own, tensor); }),
                  AllOf(HasSubstr("rank 0 of 2: all_reduce of 4 float32 (sum)"),
                        HasSubstr("NCCL: an error of the fake NCCL")));
      made.fetch_add(1);
    } else {
      while (made.load() < 3) {
        std::this_thread::yield();
      }
      EXPECT_THAT(message_of([&] { ms::comm::all_reduce(own, tensor); }),
                  HasSubstr("rank 0 is lost"));
    }
    EXPECT_EQ(ms::to_host(tensor).size(), 4U) << "the device stays usable";
  });
}

TEST_F(NcclTest, a_call_that_connects_gpus_ends_when_another_rank_does_not_come) {
  std::atomic<int> made{0};
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    std::optional<Communicator> own(communicator(device, world, std::chrono::milliseconds(250)));
    auto const tensor = ms::zeros<float>(device, {4});
    device.default_group().synchronize();
    made.fetch_add(1);
    while (made.load() < 2) {
      std::this_thread::yield();
    }
    if (world.rank() == 0) {
      fake_nccl::forget_connections();
      EXPECT_THAT(message_of([&] {
                    ms::comm::all_reduce(*own, tensor);
                    own->synchronize();
                  }),
                  AllOf(HasSubstr("rank 1 is lost"), HasSubstr("within 0.25 s")));
      made.fetch_add(1);
    }
    while (made.load() < 3) {
      std::this_thread::yield();
    }
  });
}

TEST_F(NcclTest, a_communicator_with_collectives_in_living_graphs_does_not_keep_its_rank) {
  std::optional<fake_nccl::LivingGraphs> graphs(std::in_place);
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    ms::comm::barrier(own);
  });
  EXPECT_EQ(fake_nccl::live(), 2);
  graphs.reset();  // now threads end both
  while (fake_nccl::live() > 0) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace fake_cuda
