// SPDX-License-Identifier: Apache-2.0
// The driver allocates on the path: cudaFree() waits until the device is idle, and cudaMalloc()
// takes long, so that each step begins with an idle device. Fixed: cudaMallocAsync(), which takes
// memory from a pool in stream order.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  cudaStream_t const streams[] = {planted::new_stream(), planted::new_stream()};
  cudaMemPool_t pool = nullptr;
  unsigned long long keep = ~0ULL;
  PLANTED_CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  PLANTED_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  planted::measure(options, "driver_allocation", 40, [&] {
    for (auto const stream : streams) {
      void* workspace = nullptr;
      if (options.fixed) {
        PLANTED_CHECK(cudaMallocAsync(&workspace, 64 << 20, stream));
      } else {
        PLANTED_CHECK(cudaMalloc(&workspace, 64 << 20));
      }
      planted::work(stream, 150);
      PLANTED_CHECK(options.fixed ? cudaFreeAsync(workspace, stream) : cudaFree(workspace));
    }
  });
}
