// SPDX-License-Identifier: Apache-2.0
#include "cuda_success.hpp"
#include "tags.hpp"

#include <cuda_runtime.h>

namespace benchmarks::workloads {

namespace {

constexpr int kThreads = 128;

__device__ void keep_busy(std::uint64_t busy_ns) {
  auto const now_ns = [] {
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  };
  auto const end = now_ns() + busy_ns;
  while (now_ns() < end) {
  }
}

__global__ void write_tags(Tagged block, std::uint64_t busy_ns) {
  keep_busy(busy_ns);
  for (std::size_t i = threadIdx.x; i < block.places.words; i += blockDim.x) {
    block.memory[i * block.places.stride] = block.tag ^ i;
  }
}

__global__ void check_tags(Tagged block, std::uint64_t busy_ns, unsigned long long* wrong) {
  keep_busy(busy_ns);
  for (std::size_t i = threadIdx.x; i < block.places.words; i += blockDim.x) {
    // Volatile, so that the load sees the latest write of another stream and no stale cached value.
    auto const* const place =
        static_cast<std::uint64_t const volatile*>(block.memory) + i * block.places.stride;
    if (*place != (block.tag ^ i)) {
      atomicAdd(wrong, 1ULL);
    }
  }
}

std::uint64_t count(std::chrono::nanoseconds duration) {
  return static_cast<std::uint64_t>(duration.count());
}

}  // namespace

Tags<ms::CudaStream>::Tags(std::chrono::nanoseconds busy) : busy_(busy) {
  unsigned long long* wrong = nullptr;
  require_success(cudaMalloc(&wrong, sizeof *wrong), "cudaMalloc");
  wrong_ = {wrong, [](unsigned long long* memory) { cudaFree(memory); }};
  require_success(cudaMemset(wrong, 0, sizeof *wrong), "cudaMemset");
  // Waits for the device, since non-blocking streams do not wait for the work of the default
  // stream.
  require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void Tags<ms::CudaStream>::write(ms::CudaStream stream, Tagged const& block) const {
  write_tags<<<1, kThreads, 0, stream>>>(block, count(busy_));
  require_success(cudaPeekAtLastError(), "write_tags");
}

void Tags<ms::CudaStream>::check(ms::CudaStream stream, Tagged const& block) const {
  check_tags<<<1, kThreads, 0, stream>>>(block, count(busy_), wrong_.get());
  require_success(cudaPeekAtLastError(), "check_tags");
}

std::uint64_t Tags<ms::CudaStream>::wrong() const {
  unsigned long long wrong = 0;
  require_success(cudaMemcpy(&wrong, wrong_.get(), sizeof wrong, cudaMemcpyDeviceToHost),
                  "cudaMemcpy");
  return wrong;
}

}  // namespace benchmarks::workloads
