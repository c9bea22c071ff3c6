// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cuda_fixture.hpp"
#include "fake_nccl.hpp"

#include <msstream/comm/collectives.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <thread>

namespace fake_cuda {

using Communicator = ms::comm::Communicator<ms::Cuda>;
using World = ms::comm::World;

inline constexpr auto kNoTimeout = std::chrono::hours(1);

/// Expects that a test has left nothing of the fake NCCL, and used it as NCCL may be used.
class NcclTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    FakeCudaTest::TearDown();
    // A communicator whose end takes longer than its owner waits for it ends on a thread of its
    // own.
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fake_nccl::live() != 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(fake_nccl::live(), 0);
    EXPECT_THAT(fake_nccl::take_misuses(), ::testing::IsEmpty());
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

inline Communicator communicator(Device const& device,
                                 World const& world,
                                 std::chrono::nanoseconds timeout = kNoTimeout) {
  return Communicator(device, world, {.name = "own", .timeout = timeout});
}

}  // namespace fake_cuda
