// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/cuda.hpp>

#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

/// A fixture with a stream that msstream did not create. It skips the test with a message if there
/// is no GPU.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      cudaStreamDestroy(stream_);
    }
  }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Fills the memory with `value` on the stream and copies it to the host. Returns the value that
/// all bytes have there, or -1 if they differ or a call fails.
inline int filled(void* memory, std::size_t bytes, std::uint8_t value, cudaStream_t stream) {
  std::vector<std::uint8_t> seen(bytes, static_cast<std::uint8_t>(~value));
  if (cudaMemsetAsync(memory, value, bytes, stream) != cudaSuccess ||
      cudaMemcpyAsync(seen.data(), memory, bytes, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess) {
    return -1;
  }
  return std::all_of(seen.begin(), seen.end(), [&](auto byte) { return byte == seen[0]; }) ? seen[0]
                                                                                           : -1;
}

}  // namespace msstream::testing
