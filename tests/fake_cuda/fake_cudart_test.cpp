// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/runtime/cuda.hpp>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>

/// Tests that the fake CUDA runtime implements CUDA's rules and reports violations of them.
namespace fake_cuda {
namespace {

/// A fixture with two streams, two events, and one byte each of device and pinned memory.
class FakeCudart : public FakeCudaTest {
 protected:
  FakeCudart() {
    for (auto& stream : streams_) {
      EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    }
    for (auto& event : events_) {
      EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    }
    EXPECT_EQ(cudaMalloc(&device_, 1), cudaSuccess);
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, 1, cudaHostAllocPortable), cudaSuccess);
    pinned_ = static_cast<std::uint8_t*>(memory);
    *pinned_ = 0;
  }
  void TearDown() override {
    for (auto* const stream : streams_) {
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    for (auto* const event : events_) {
      EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    }
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    FakeCudaTest::TearDown();
  }

  std::array<cudaStream_t, 2> streams_{};
  std::array<cudaEvent_t, 2> events_{};
  void* device_ = nullptr;
  std::uint8_t* pinned_ = nullptr;
};

// The copy waits for the fill by an event: stream 0 = [fill 7, record e0], stream 1 = [wait e0,
// copy to the host, record e1].
TEST_F(FakeCudart, runs_work_in_order_and_no_earlier_than_asked) {
  ASSERT_EQ(cudaMemsetAsync(device_, 7, 1, streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(streams_[1], events_[0], 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, device_, 1, cudaMemcpyDeviceToHost, streams_[1]), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(events_[1], streams_[1]), cudaSuccess);
  EXPECT_EQ(*pinned_, 0);
  EXPECT_EQ(cudaEventSynchronize(events_[1]), cudaSuccess);
  EXPECT_EQ(*pinned_, 7);
}

// The copy does not wait for the fill: stream 0 = [fill 7], stream 1 = [copy to the host].
TEST_F(FakeCudart, a_missing_wait_shows) {
  ASSERT_EQ(cudaMemsetAsync(device_, 1, 1, streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 7, 1, streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, device_, 1, cudaMemcpyDeviceToHost, streams_[1]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  EXPECT_EQ(*pinned_, 1);
}

TEST_F(FakeCudart, a_query_finds_work_done_unless_the_device_is_busy) {
  ASSERT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
  {
    BusyDevice const busy;
    EXPECT_EQ(cudaEventQuery(events_[1]), cudaSuccess) << "never recorded";
    EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an answer is no error";
  }
  EXPECT_EQ(cudaEventQuery(events_[0]), cudaSuccess);
}

TEST_F(FakeCudart, a_wait_stands_for_what_the_event_stood_for_then) {
  ASSERT_EQ(cudaStreamWaitEvent(streams_[1], events_[0], 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 7, 1, streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  BusyDevice const busy;
  EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorNotReady);
}

TEST_F(FakeCudart, work_outlives_its_stream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 7, 1, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(events_[0], stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(events_[0]), cudaSuccess);
  EXPECT_EQ(*static_cast<std::uint8_t*>(device_), 7);
}

TEST_F(FakeCudart, use_after_destroy_fails_and_is_reported) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, streams_[0]), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(events_[0], nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFree(pinned_), cudaErrorInvalidValue);
  EXPECT_EQ(take_misuses().size(), 4U);
  static_cast<void>(cudaGetLastError());
}

TEST_F(FakeCudart, pageable_and_foreign_memory_is_not_copied) {
  std::uint8_t pageable = 0;
  EXPECT_EQ(cudaMemcpyAsync(device_, &pageable, 1, cudaMemcpyHostToDevice, streams_[0]),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device_, pinned_, 2, cudaMemcpyHostToDevice, streams_[0]),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(pinned_, 0, 1, streams_[0]), cudaErrorInvalidValue);
  EXPECT_EQ(take_misuses().size(), 3U);
  static_cast<void>(cudaGetLastError());
}

TEST_F(FakeCudart, a_host_function_may_not_call_cuda) {
  auto const query = [](void* event) {
    EXPECT_EQ(cudaEventQuery(static_cast<cudaEvent_t>(event)), cudaErrorNotPermitted);
  };
  ASSERT_EQ(cudaLaunchHostFunc(streams_[0], query, events_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(take_misuses().size(), 1U);
  static_cast<void>(cudaGetLastError());
}

TEST_F(FakeCudart, memory_is_aligned_and_has_an_end) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device_) % 256, 0U);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, free_bytes + 1), cudaErrorMemoryAllocation);
  static_cast<void>(cudaGetLastError());
}

TEST_F(FakeCudart, knows_what_kind_of_memory_a_pointer_is_to) {
  auto const kind_of = [](void const* memory) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    return attributes.type;
  };
  std::uint8_t const pageable = 0;
  EXPECT_EQ(kind_of(device_), cudaMemoryTypeDevice);
  EXPECT_EQ(kind_of(pinned_), cudaMemoryTypeHost);
  EXPECT_EQ(kind_of(&pageable), cudaMemoryTypeUnregistered);
}

TEST_F(FakeCudart, what_is_not_destroyed_shows) {
  auto const before = live();
  EXPECT_EQ(before.streams, 2U);
  EXPECT_EQ(before.events, 2U);
  EXPECT_EQ(before.device_allocations, 1U);
  EXPECT_EQ(before.pinned_allocations, 1U);
  auto const handles = blas_handles();
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(blas_handles(), handles + 1);
  ASSERT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(blas_handles(), handles);
}

/// Checks that the process has loaded neither the real CUDA libraries nor the driver. These tests
/// must not use the GPU of the machine, and GPU tests must not run on the fake runtime.
TEST(FakeCudaProgram, holds_nothing_of_cuda) {
  ASSERT_EQ(ms::Cuda::device_count(), 1);
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int lines = 0;
  for (; std::getline(maps, line); ++lines) {
    for (auto const* const library : {"libcuda.", "libcudart", "libcublas"}) {
      EXPECT_EQ(line.find(library), std::string::npos) << line;
    }
  }
  EXPECT_GT(lines, 0);
}

}  // namespace
}  // namespace fake_cuda
