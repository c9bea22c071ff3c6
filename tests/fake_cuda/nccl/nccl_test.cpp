// SPDX-License-Identifier: Apache-2.0
// Tests of communicators between ranks that NCCL connects, with a fake NCCL whose ranks are threads
// that share one fake device. They show when the host waits and what it is told; collectives move
// no data.
#include "nccl_fixture.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/step/captured_step.hpp>

#include <nccl.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

namespace fake_cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A rank's tensors for one collective of each kind between two ranks.
struct OneOfEach {
  Communicator const& own;
  ms::Tensor<float, ms::Cuda> tensor;
  ms::Tensor<float, ms::Cuda> exchanged;
  ms::Tensor<float, ms::Cuda> parts;

  OneOfEach(Device const& device, Communicator const& communicator)
      : own(communicator),
        tensor(ms::zeros<float>(device, {4})),
        exchanged(ms::zeros<float>(device, {4})),
        parts(ms::zeros<float>(device, {8})) {}

  void issue() const {
    ms::comm::all_reduce(own, tensor);
    ms::comm::all_gather(own, tensor, parts);
    ms::comm::reduce_scatter(own, parts, tensor);
    ms::comm::all_to_all(own, tensor, exchanged);
    ms::comm::broadcast(own, tensor);
    ms::comm::barrier(own);
  }
};

TEST_F(NcclTest, collectives_are_one_call_each_and_communicators_end) {
  auto const aborted = fake_nccl::calls("ncclCommAbort");
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    OneOfEach const one(device, own);
    auto const before = fake_nccl::calls("ncclAllReduce");
    for (int i = 0; i < 3; ++i) {
      one.issue();
    }
    own.synchronize();
    EXPECT_GE(fake_nccl::calls("ncclAllReduce") - before, 6U);
    EXPECT_EQ(fake_nccl::calls("ncclCommAbort"), aborted);
  });
}

// Back to back on the communicator's group. The watches of the ranks look ten times a second, and
// each look may need an event.
TEST_F(NcclTest, collectives_call_cuda_as_often_as_nccl_does) {
  constexpr int kRounds = 200;
  std::barrier<> all(2);
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    OneOfEach const one(device, own);
    auto const round = [&] { one.issue(); };
    repeat(kWarmUp, round);
    all.arrive_and_wait();
    auto const made = calls_of([&] {
      all.arrive_and_wait();
      repeat(kRounds, round);
      all.arrive_and_wait();
    });
    auto const looks = static_cast<std::uint64_t>(kRounds / 10);
    EXPECT_TRUE(within(made,
                       Budget()
                           .at_most("cudaEventCreateWithFlags", looks)
                           .at_most("cudaEventRecord", looks)
                           .at_most("cudaEventQuery", looks)));
    all.arrive_and_wait();
    own.synchronize();
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
      "most_sms of 16, copy_engines false, peer_access true; expected those of rank 0: most_sms of "
      "8, copy_engines false, peer_access true";
  EXPECT_THAT(messages[1], HasSubstr(kWhy));
  EXPECT_THAT(messages[0], AllOf(HasSubstr("rank 1 is lost"), HasSubstr(kWhy)));
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

// NCCL may carry out a send, or the root's part of a broadcast, before the other rank has come.
TEST_F(NcclTest, a_rank_that_was_done_before_there_was_a_difference_is_told_at_its_next_wait) {
  for (bool const is_send : {true, false}) {
    std::barrier<> all(2);
    ms::comm::run_as_threads(2, [&](World const& world) {
      Device const device;
      auto const own = communicator(device, world);
      auto const tensor = ms::zeros<float>(device, {4});
      if (world.rank() == 0) {
        EXPECT_EQ(message_of([&] {
                    is_send ? ms::comm::send(own, tensor, 1) : ms::comm::broadcast(own, tensor, 0);
                    own.synchronize();
                  }),
                  "");
      }
      all.arrive_and_wait();
      if (world.rank() == 1) {
        is_send ? ms::comm::all_reduce(own, tensor) : ms::comm::broadcast(own, tensor, 1);
      }
      all.arrive_and_wait();
      EXPECT_THAT(message_of([&] { own.synchronize(); }),
                  AllOf(HasSubstr("rank 0 has "), HasSubstr("and rank 1 has ")));
    });
  }
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

/// Two ranks with a communicator each, and a captured step with its collectives.
struct RankWithStep {
  explicit RankWithStep(World const& world, std::chrono::nanoseconds timeout = kNoTimeout)
      : own(std::in_place, communicator(device, world, timeout)) {
    auto const tensor = ms::zeros<float>(device, {4});
    step.emplace(device, [&] {
      ms::comm::all_reduce(*own, tensor);
      ms::comm::barrier(*own);
    });
    step->replay();
    own->synchronize();
  }
  /// Lets a call of rank 0 fail, and returns when this rank has been told.
  void fail(int own_rank) {
    std::optional<fake_nccl::FailingCall> failing;
    if (own_rank == 0) {
      failing.emplace("ncclAllReduce", 0);
      auto const tensor = ms::zeros<float>(device, {4});
      EXPECT_THROW(ms::comm::all_reduce(*own, tensor), std::runtime_error);
    }
    while (message_of([&] { own->synchronize(); }).empty()) {
    }
  }

  Device device;
  std::optional<Communicator> own;
  std::optional<ms::CapturedStep<ms::Cuda>> step;
};

TEST_F(NcclTest, a_communicator_ends_at_once_after_the_steps_that_have_captured_it) {
  ms::comm::run_as_threads(2, [](World const& world) {
    RankWithStep rank(world);
    rank.step.reset();
    static_cast<void>(rank.own->exchange("both steps are gone"));
    auto const live = fake_nccl::live();
    static_cast<void>(rank.own->exchange("both have looked"));
    rank.own.reset();
    EXPECT_LT(fake_nccl::live(), live);
    EXPECT_EQ(ms::to_host(ms::zeros<float>(rank.device, {4})).size(), 4U);
  });
}

TEST_F(NcclTest, a_communicator_ends_with_the_last_step_that_has_captured_it) {
  std::atomic<int> came{0};
  auto const finalized = fake_nccl::calls("ncclCommFinalize");
  ms::comm::run_as_threads(2, [&](World const& world) {
    RankWithStep rank(world);
    std::optional<ms::CapturedStep<ms::Cuda>> other;
    auto const tensor = ms::zeros<float>(rank.device, {4});
    other.emplace(rank.device, [&] { ms::comm::all_reduce(*rank.own, tensor); });
    rank.own.reset();
    rank.step.reset();
    rank.device.default_group().synchronize();
    came.fetch_add(1);
    while (came.load() < 2) {
      std::this_thread::yield();
    }
    EXPECT_EQ(fake_nccl::calls("ncclCommFinalize"), finalized) << "waits for the other step";
    EXPECT_EQ(fake_nccl::ending(), 0) << "no thread waits for a graph";
    came.fetch_add(1);
    while (came.load() < 4) {
      std::this_thread::yield();
    }
    other->replay();
    other.reset();
  });
  EXPECT_EQ(fake_nccl::calls("ncclCommFinalize"), finalized + 2);
}

TEST_F(NcclTest, a_capture_that_fails_keeps_no_communicator) {
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    auto const tensor = ms::zeros<float>(device, {4});
    auto const fail = [&] {
      ms::CapturedStep<ms::Cuda> const step(device, [&] {
        ms::comm::all_reduce(own, tensor);
        throw std::runtime_error("in a capture");
      });
    };
    EXPECT_THROW(fail(), std::runtime_error);
    static_cast<void>(own.exchange("both have failed"));
  });
}

TEST_F(NcclTest, a_failure_ends_the_collectives_at_once_and_the_communicator_with_its_steps) {
  auto const aborts = fake_nccl::calls("ncclCommAbort");
  ms::comm::run_as_threads(2, [&](World const& world) {
    RankWithStep rank(world);
    static_cast<void>(rank.own->exchange("both have a step"));
    rank.fail(world.rank());
    while (fake_nccl::calls("ncclCommAbort") < aborts + 2) {
      std::this_thread::yield();
    }
    rank.own.reset();
    rank.step->replay();
    EXPECT_GT(fake_nccl::ending(), 0) << "NCCL waits for the step";
    rank.step.reset();
  });
  while (fake_nccl::live() > 0) {  // threads end what the graphs have kept
    std::this_thread::yield();
  }
  EXPECT_EQ(fake_nccl::calls("ncclCommAbort"), aborts + 2);
}

/// Ends a program while NCCL still ends its communicators, and returns by exit() 0 if no thread is
/// in NCCL when the driver may end.
[[noreturn]] void exit_while_communicators_end() {
  // Handlers run in the reverse order, that of the library between these two.
  std::atexit([] {
    if (fake_nccl::ending() != 0 || fake_nccl::live() != 0) {
      ::_exit(1);
    }
  });
  fake_nccl::hold_ends();
  ms::comm::run_as_threads(2, [](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    ms::comm::barrier(own);
  });
  std::atexit(fake_nccl::release_ends);
  std::exit(fake_nccl::ending() == 2 ? 0 : 2);
}

/// Ends a program whose captured steps outlive it, after a failure of their communicators.
[[noreturn]] void exit_with_steps_of_failed_communicators() {
  ms::comm::run_as_threads(2, [](World const& world) {
    auto& rank = *new RankWithStep(world);
    static_cast<void>(rank.own->exchange("both have a step"));
    rank.fail(world.rank());
    rank.own.reset();
  });
  std::exit(fake_nccl::ending() == 2 ? 0 : 2);
}

TEST(NcclAtExit, no_thread_is_in_nccl_when_the_driver_ends) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_while_communicators_end(), ::testing::ExitedWithCode(0), "");
}

TEST(NcclAtExit, exit_does_not_wait_for_communicators_that_captured_steps_keep) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(exit_with_steps_of_failed_communicators(), ::testing::ExitedWithCode(0), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace fake_cuda
