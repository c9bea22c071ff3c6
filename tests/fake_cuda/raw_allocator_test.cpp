// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/memory/raw_allocator.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>

/// Tests of the CUDA calls of allocations by pointer: calls that identify the stream, and an event
/// for each release.
namespace fake_cuda {
namespace {

constexpr std::size_t kBytes = 1024;

class RawMemoryBudget : public FakeCudaTest {
 protected:
  using Memory = ms::RawAllocator<ms::Cuda>;

  /// Creates a stream by a direct call of CUDA.
  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    return stream;
  }
  static void take_and_give_back(Memory& memory, cudaStream_t stream) {
    memory.deallocate(memory.allocate(kBytes, 256, stream), stream);
  }
  /// Permits `count` allocations or releases that need no work from the device, on a thread whose
  /// current device is the allocator's.
  static Budget of_visits(std::uint64_t count) {
    return Budget()
        .exactly("cudaThreadExchangeStreamCaptureMode", 2 * count)
        .exactly("cudaGetDevice", count)
        .exactly("cudaStreamIsCapturing", count)
        .exactly("cudaStreamGetId", count);
  }
};

TEST_F(RawMemoryBudget, one_stream_reuses_its_memory_for_an_event) {
  constexpr int kPairs = 100;
  auto const stream = make_stream();
  {
    Memory memory{Device()};
    repeat(kWarmUp, [&] { take_and_give_back(memory, stream); });
    BusyDevice const busy;
    auto const counted =
        calls_of([&] { repeat(kPairs, [&] { take_and_give_back(memory, stream); }); });
    EXPECT_TRUE(within(counted, of_visits(2 * kPairs).exactly("cudaEventRecord", kPairs)));
  }
  cudaStreamDestroy(stream);
}

TEST_F(RawMemoryBudget, an_event_is_the_last_that_a_stream_is_asked_for) {
  Memory memory{
      Device(ms::DeviceOptions<ms::Cuda>{.memory = {.limit_bytes = std::size_t{2} << 20U}})};
  auto const next = make_stream();
  BusyDevice const busy;
  for (int i = 0; i < 3; ++i) {
    auto const stream = make_stream();
    auto* const whole = memory.allocate(std::size_t{2} << 20U, 256, stream);
    memory.deallocate(whole, stream);
    cudaStreamDestroy(stream);
    auto const before = counts();
    EXPECT_EQ(memory.allocate(std::size_t{2} << 20U, 256, next), whole);
    EXPECT_EQ(counts().since(before)["cudaStreamWaitEvent"], 1U);
    EXPECT_EQ(counts().since(before)["cudaEventRecord"], 0U);
    memory.deallocate(whole, next);
  }
  cudaStreamDestroy(next);
}

TEST_F(RawMemoryBudget, a_capture_is_not_disturbed) {
  auto const stream = make_stream();
  {
    Memory memory{Device()};
    auto* const block = memory.allocate(kBytes, 256, stream);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    auto const counted = calls_of([&] {
      EXPECT_THROW(static_cast<void>(memory.allocate(kBytes, 256, stream)), std::logic_error);
      memory.deallocate(block, stream);
    });
    EXPECT_TRUE(within(counted, of_visits(2).exactly("cudaStreamGetId", 0)));
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(memory.device().memory_statistics().live_bytes, kBytes);
    take_and_give_back(memory, stream);
    EXPECT_EQ(memory.device().memory_statistics().live_bytes, 0U);
  }
  cudaStreamDestroy(stream);
}

TEST_F(RawMemoryBudget, without_an_event_the_host_waits) {
  auto const stream = make_stream();
  {
    Memory memory{Device()};
    auto* const block = memory.allocate(kBytes, 256, stream);
    FailingCall const failing("cudaEventRecord", 1);
    auto const counted = calls_of([&] { memory.deallocate(block, stream); });
    EXPECT_EQ(counted["cudaStreamSynchronize"], 1U);
    EXPECT_EQ(memory.device().memory_statistics().live_bytes, 0U);
  }
  cudaStreamDestroy(stream);
}

TEST_F(RawMemoryBudget, what_fails_to_come_back_is_given_to_nobody) {
  auto const stream = make_stream();
  {
    Memory memory{Device()};
    auto* const block = memory.allocate(kBytes, 256, stream);
    {
      FailingCall const failing("cudaStreamGetId", 1);
      EXPECT_THROW(memory.deallocate(block, stream), ms::CudaError);
    }
    EXPECT_EQ(memory.device().memory_statistics().live_bytes, kBytes);
    EXPECT_NE(memory.allocate(kBytes, 256, stream), block);
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace fake_cuda
