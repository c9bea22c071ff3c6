// SPDX-License-Identifier: Apache-2.0
// Tests captures that another thread ends by waiting for the whole device.
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/arithmetic.hpp>

#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <semaphore>
#include <string>
#include <thread>

namespace msstream::testing {
namespace {

template <class R>
class CapturesEndedTest : public RuntimeTest<R> {};
using CudaAlone = ::testing::Types<Cuda>;
TYPED_TEST_SUITE(CapturesEndedTest, CudaAlone, RuntimeNames);

TYPED_TEST(CapturesEndedTest, it_is_said_and_the_device_and_the_next_capture_work) {
  Device<TypeParam> const device;
  auto const in = to_device<float, TypeParam>(device, Floats(512, 3), {512});
  cudaError_t of_other = cudaSuccess;
  std::string error;
  try {
    CapturedStep<TypeParam> const step(device, [&] {
      static_cast<void>(ops::add(in, in));
      std::thread([&] {
        of_other = cudaDeviceSynchronize();
        cudaGetLastError();
      }).join();
      static_cast<void>(ops::multiply(in, in));
    });
  } catch (std::exception const& caught) {
    error = caught.what();
  }
  // A driver may let the other thread wait for the device without an error. The capture then has
  // nothing to report.
  if (of_other != cudaSuccess) {
    EXPECT_THAT(error, ::testing::HasSubstr("another thread has waited for the whole device"));
  }
  EXPECT_EQ(to_host(ops::add(in, in)).back(), 6);
  Tensor<float, TypeParam> const out(device, {512});
  CapturedStep<TypeParam> again(device, [&] { copy(out, ops::multiply(in, in)); });
  again.replay();
  EXPECT_EQ(to_host(out).back(), 9);
}

/// Tests captures while a thread of another library allocates and frees device memory: once inside
/// each capture, and once beside its end, its instantiation and its replay. A thread that did it in
/// a loop would keep the driver's lock from the calls of the capture for seconds.
TYPED_TEST(CapturesEndedTest, memory_taken_and_freed_by_another_thread_ends_none) {
  constexpr int kCaptures = 50;
  Device<TypeParam> const device;
  auto const in = to_device<float, TypeParam>(device, Floats(512, 3), {512});
  Tensor<float, TypeParam> const out(device, {512});
  std::atomic<int> of_other{cudaSuccess};
  auto const take_and_free = [&] {
    void* memory = nullptr;
    auto result = cudaMalloc(&memory, 1U << 20U);
    result = result != cudaSuccess ? result : cudaFree(memory);
    if (result != cudaSuccess) {
      of_other = result;
    }
  };
  std::counting_semaphore<> captured(0);
  std::thread beside([&] {
    for (int i = 0; i < kCaptures; ++i) {
      captured.acquire();
      take_and_free();
    }
  });
  std::string error;
  int ended = 0;
  try {
    for (; ended < kCaptures; ++ended) {
      CapturedStep<TypeParam> step(device, [&] {
        auto const squares = ops::multiply(in, in);
        std::thread(take_and_free).join();
        copy(out, squares);
        captured.release();
      });
      step.replay();
      EXPECT_EQ(to_host(out).back(), 9);
    }
  } catch (std::exception const& caught) {
    error = caught.what();
  }
  captured.release(kCaptures);
  beside.join();
  EXPECT_EQ(error, "");
  EXPECT_EQ(ended, kCaptures);
  EXPECT_EQ(of_other, cudaSuccess);
}

}  // namespace
}  // namespace msstream::testing
