// SPDX-License-Identifier: Apache-2.0
#include "common/copy_and_tell.hpp"
#include "common/launch.cuh"

namespace msstream::ops::kernels {
namespace {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kWarp = 32;

__global__ void __launch_bounds__(kMostThreads) copy_and_tell_kernel(CopyAndTellArgs args) {
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    args.to[i] = args.from[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();  // orders the copies, which the barrier made visible to this thread,
                             // before the flag
    *static_cast<std::int32_t volatile*>(args.told) = 1;
  }
}

}  // namespace

void copy_and_tell(CudaStream stream, CopyAndTellArgs const& args) {
  auto const threads = args.count < kMostThreads
                           ? (static_cast<unsigned>(args.count) / kWarp + 1) * kWarp
                           : kMostThreads;
  copy_and_tell_kernel<<<1, threads, 0, stream>>>(args);
  check_launch("copy_and_tell");
}

}  // namespace msstream::ops::kernels
