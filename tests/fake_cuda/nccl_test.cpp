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

TEST_F(NcclTest, groups_have_communicators_of_their_own) {
  ms::comm::run_as_threads(4, [](World const& world) {
    Device const device;
    auto const all = communicator(device, world);
    auto const inside = communicator(device, world.split(world.rank() / 2));
    auto const between = communicator(device, world.split(world.rank() % 2));
    auto const tensor = ms::zeros<float>(device, {4});
    auto const parts = ms::zeros<float>(device, {8});
    for (int i = 0; i < 3; ++i) {
      ms::comm::all_reduce(all, tensor);
      ms::comm::all_gather(inside, tensor, parts);
      ms::comm::reduce_scatter(between, parts, tensor);
    }
    between.synchronize();
    // A group that fails leaves the others alone. The fake's barrier waits for no rank.
    static_cast<void>(all.exchange(""));
    if (world.rank() == 3) {
      inside.any().give_up("no such row");
    } else if (world.rank() == 2) {
      EXPECT_THAT(message_of([&] {
                    for (;;) {  // the fake's collectives do not wait for the other ranks
                      ms::comm::all_gather(inside, tensor, parts);
                      inside.synchronize();
                    }
                  }),
                  HasSubstr("communicator 'own' of ranks 2, 3 of the whole world, rank 0 of 2"));
    } else {
      ms::comm::all_gather(inside, tensor, parts);
      inside.synchronize();
    }
    ms::comm::reduce_scatter(between, parts, tensor);
    between.synchronize();
  });
}

TEST_F(NcclTest, gets_the_blocks_and_the_policy_that_options_choose) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    Communicator const own(device, world, {.most_sms = 20, .copy_engines = true});
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

TEST_F(NcclTest, symmetric_tensors_are_registered_until_they_or_their_communicator_end) {
  auto const registered = fake_nccl::calls("ncclCommWindowRegister");
  auto const deregistered = fake_nccl::calls("ncclCommWindowDeregister");
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
  EXPECT_EQ(fake_nccl::calls("ncclCommWindowRegister") - registered, 4U);
  EXPECT_EQ(fake_nccl::calls("ncclCommWindowDeregister") - deregistered, 4U);
}

TEST_F(NcclTest, other_parts_of_symmetric_tensors_on_other_ranks_are_told) {
  enum class Which { input, output };
  for (auto const which : {Which::input, Which::output}) {
    std::array<std::string, 2> messages;
    ms::comm::run_as_threads(2, [&](World const& world) {
      Device const device;
      auto const own = communicator(device, world);
      auto const symmetric = ms::comm::symmetric_tensor<float>(own, {2, 8});
      ms::fill_bytes(symmetric, 0);
      auto const part = symmetric.rows(world.rank(), world.rank() + 1);
      auto const small = ms::zeros<float>(device, {4});
      auto const large = ms::zeros<float>(device, {16});
      messages.at(static_cast<std::size_t>(world.rank())) = message_of([&] {
        if (which == Which::output) {
          ms::comm::all_gather(own, small, part);
        } else {
          ms::comm::all_gather(own, part, large);
        }
        own.synchronize();
        static_cast<void>(own.exchange("a failure has come until then"));
      });
    });
    for (auto const& message : messages) {
      EXPECT_THAT(message,
                  which == Which::output
                      ? AllOf(HasSubstr("from place -1 to place 0"), HasSubstr("to place 32"))
                      : AllOf(HasSubstr("from place 0 to place -1"), HasSubstr("from place 32")));
    }
  }
}

TEST_F(NcclTest, too_little_memory_for_a_symmetric_tensor_is_told_to_all_ranks) {
  std::atomic<bool> has_failed{false};
  std::atomic<bool> is_told{false};
  std::array<std::string, 2> messages;
  std::string told_later;
  std::optional<fake_nccl::FailingCall> failing(std::in_place, "ncclMemAlloc", 0);
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    messages.at(static_cast<std::size_t>(world.rank())) =
        message_of([&] { static_cast<void>(ms::comm::symmetric_tensor<float>(own, {4})); });
    auto const later = ms::comm::symmetric_tensor<float>(own, {4});
    ms::fill_bytes(later, 0);
    ms::comm::all_reduce(own, later);
    own.synchronize();
    static_cast<void>(own.exchange("both are done"));
    // The failure of another rank is still told by the next wait.
    if (world.rank() == 0) {
      failing.emplace("ncclAllReduce", 0);
      EXPECT_THAT(message_of([&] { ms::comm::all_reduce(own, later); }), HasSubstr("all_reduce"));
      has_failed.store(true);
      while (!is_told.load()) {
        std::this_thread::yield();
      }
    } else {
      while (!has_failed.load()) {
        std::this_thread::yield();
      }
      told_later = message_of([&] { static_cast<void>(ms::to_host(later)); });
      is_told.store(true);
    }
  });
  EXPECT_THAT(told_later, HasSubstr("rank 0 is lost"));
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_THAT(messages[0], HasSubstr("symmetric_tensor() of communicator 'own': 16 bytes on rank"));
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
