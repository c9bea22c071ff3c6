// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/kernels.hpp"

namespace msstream::doctor {
namespace {

__global__ void empty_kernel() {}

__device__ std::uint64_t device_clock_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Bounds a kernel on a device whose clock stands still: a reading takes at least 10 ns.
constexpr int kMostReadings = 1 << 24;

__global__ void wait_kernel(std::uint64_t ns, std::uint64_t* begin_and_end) {
  auto const begin = device_clock_ns();
  auto now = begin;
  for (int i = 0; i < kMostReadings && now - begin < ns; ++i) {
    now = device_clock_ns();
  }
  if (begin_and_end != nullptr) {
    begin_and_end[0] = begin;
    begin_and_end[1] = now;
  }
}

__global__ void busy_kernel(std::uint64_t ns) {
  if (threadIdx.x == 0) {
    auto const begin = device_clock_ns();
    for (int i = 0; i < kMostReadings && device_clock_ns() - begin < ns; ++i) {
    }
  }
  __syncthreads();
}

}  // namespace

std::vector<int> kernel_architectures() {
  std::vector<int> architectures{__CUDA_ARCH_LIST__};  // such as 900
  for (auto& architecture : architectures) {
    architecture /= 10;
  }
  return architectures;
}

cudaError_t launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_wait(cudaStream_t stream, std::uint64_t ns, std::uint64_t* begin_and_end) {
  wait_kernel<<<1, 1, 0, stream>>>(ns, begin_and_end);
  return cudaGetLastError();
}

cudaError_t launch_busy(cudaStream_t stream, int blocks, std::uint64_t ns) {
  busy_kernel<<<static_cast<unsigned>(blocks), 1024, 0, stream>>>(ns);
  return cudaGetLastError();
}

}  // namespace msstream::doctor
