// SPDX-License-Identifier: Apache-2.0
#include "own_kernel.hpp"

#include <algorithm>

namespace own {

namespace {

__global__ void scale_kernel(ScaleArgs args) {
  std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count;
       i += stride) {
    args.output[i] = args.factor * args.input[i];
  }
}

}  // namespace

// Launches the kernel on a CudaStream, which converts to cudaStream_t. The function need not wait
// for or record any event, since issue() takes care of both.
void scale(msstream::CudaStream stream, ScaleArgs const& args) {
  if (args.count == 0) {
    return;  // CUDA refuses an empty grid
  }
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t most_blocks = 1024;
  auto const blocks =
      static_cast<unsigned>(std::min((args.count + threads - 1) / threads, most_blocks));
  scale_kernel<<<blocks, threads, 0, stream>>>(args);
}

}  // namespace own
