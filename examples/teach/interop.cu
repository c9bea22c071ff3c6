// SPDX-License-Identifier: Apache-2.0
// Memory of the device's allocator for other libraries: by pointer, as a resource of CCCL, and as
// an allocator of Thrust.
#include "teach.hpp"

#include <msstream/interop/memory_resource.cuh>
#include <msstream/interop/thrust_allocator.cuh>
#include <msstream/memory/device.hpp>
#include <msstream/memory/raw_allocator.hpp>

#include <cuda/memory_resource>
#include <cuda_runtime_api.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <cstddef>

namespace ms = msstream;

namespace {

void require(cudaError_t error) {
  teach::expect(error == cudaSuccess, cudaGetErrorString(error));
}

__global__ void my_kernel(float* values) {
  values[blockIdx.x * blockDim.x + threadIdx.x] = 1.0F;
}

void by_pointer(ms::Device<ms::Cuda> const& device, cudaStream_t stream) {
  constexpr std::size_t bytes = 64 * 256 * sizeof(float);

  ms::RawAllocator<ms::Cuda> memory(device);
  void* const scratch = memory.allocate(bytes, 256, stream);  // for work on `stream` from here on
  my_kernel<<<64, 256, 0, stream>>>(static_cast<float*>(scratch));
  memory.deallocate(scratch, stream);  // free after all work now on `stream`; does not block
  require(cudaGetLastError());
}

void of_cccl(ms::Device<ms::Cuda> const& device) {
  ms::MemoryResource<ms::Cuda> resource(device);
#if CCCL_VERSION >= 3001000
  cuda::mr::resource_ref<cuda::mr::device_accessible> reference(resource);
#else
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> reference(resource);
#endif
  auto const copy = reference;
  teach::expect(copy == reference, "copies are one resource");
}

void of_thrust(ms::Device<ms::Cuda> const& device, cudaStream_t stream) {
  ms::MemoryResource<ms::Cuda> const resource(device);
  using Vector = thrust::device_vector<float, ms::ThrustAllocator<float, ms::Cuda>>;
  Vector keys(1000, ms::ThrustAllocator<float, ms::Cuda>(resource, cudaStream_t{}));
  keys[0] = 1;
  require(cudaStreamSynchronize(cudaStream_t{}));

  ms::ThrustAllocator<std::byte, ms::Cuda> scratch(resource, stream);
  auto const policy = thrust::cuda::par_nosync(scratch).on(stream);
  thrust::sort(policy, keys.begin(), keys.end());  // temporary memory from the pool, no wait

  require(cudaStreamSynchronize(stream));
  teach::expect(keys[999] == 1, "sorted");
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<ms::Cuda> const device;
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    by_pointer(device, stream);
    of_cccl(device);
    of_thrust(device, stream);
    require(cudaStreamSynchronize(stream));
    require(cudaStreamDestroy(stream));
  });
}
