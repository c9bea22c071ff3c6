// SPDX-License-Identifier: Apache-2.0
#include "bare.hpp"
#include "cuda_success.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <string>

namespace benchmarks {

namespace {

__global__ void empty() {}

}  // namespace

Bare<ms::Cuda>::Bare(ms::Cuda& runtime) {
  runtime.make_current();
  int device = 0;
  require_success(cudaGetDevice(&device), "cudaGetDevice");
  cudaMemPool_t pool = nullptr;
  require_success(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  auto keep = std::numeric_limits<std::uint64_t>::max();
  require_success(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
                  "cudaMemPoolSetAttribute");
}

void Bare<ms::Cuda>::launch_empty(ms::CudaStream stream) {
  empty<<<1, 1, 0, stream>>>();
}

void Bare<ms::Cuda>::record(native_event event, native_stream stream) const {
  cudaEventRecord(event, stream);
}

void Bare<ms::Cuda>::wait(native_stream stream, native_event event) const {
  cudaStreamWaitEvent(stream, event, 0);
}

bool Bare<ms::Cuda>::query(native_event event) const {
  return cudaEventQuery(event) == cudaSuccess;
}

void* Bare<ms::Cuda>::allocate(std::size_t bytes, native_stream stream) const {
  void* memory = nullptr;
  cudaMallocAsync(&memory, bytes, stream);
  return memory;
}

void Bare<ms::Cuda>::free(void* memory, native_stream stream) const {
  cudaFreeAsync(memory, stream);
}

void Bare<ms::Cuda>::check() const {
  // cudaErrorNotReady is the result of querying unfinished work and is not an error.
  auto const code = cudaGetLastError();
  require_success(code == cudaErrorNotReady ? cudaSuccess : code, "a call of the baseline");
}

std::string Bare<ms::Cuda>::version() {
  int driver = 0;
  int runtime = 0;
  require_success(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require_success(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  auto const version = [](int number) {
    return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
  };
  return "CUDA " + version(runtime) + ", driver for " + version(driver);
}

}  // namespace benchmarks
