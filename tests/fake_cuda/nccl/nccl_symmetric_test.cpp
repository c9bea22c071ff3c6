// SPDX-License-Identifier: Apache-2.0
// Tests of symmetric tensors of ranks that the fake NCCL connects.
#include "nccl_fixture.hpp"

#include <nccl.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

namespace fake_cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_F(NcclTest, the_end_of_a_symmetric_tensor_ends_with_a_communicator_that_fails_meanwhile) {
  auto const deregistered = fake_nccl::calls("ncclCommWindowDeregister");
  fake_nccl::hold_deregistrations();
  ms::comm::run_as_threads(2, [&](World const& world) {
    Device const device;
    auto const own = communicator(device, world);
    std::optional symmetric(ms::comm::symmetric_tensor<float>(own, {4}));
    if (world.rank() == 0) {
      symmetric.reset();
    } else {
      while (fake_nccl::calls("ncclCommWindowDeregister") == deregistered) {
        std::this_thread::yield();
      }
      fake_nccl::FailingCall const failing("ncclAllReduce", 1);
      auto const values = ms::zeros<float>(device, {4});
      EXPECT_THAT(message_of([&] { ms::comm::all_reduce(own, values); }), HasSubstr("all_reduce"));
    }
    EXPECT_THAT(message_of([&] { static_cast<void>(own.exchange("nothing")); }),
                HasSubstr("rank 1"));
  });
  fake_nccl::release_deregistrations();
}

}  // namespace
}  // namespace fake_cuda
