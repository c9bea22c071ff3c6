// SPDX-License-Identifier: Apache-2.0
#include "own_gradient.hpp"

namespace own {

namespace {

constexpr unsigned kThreads = 256;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

__device__ std::int64_t element() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__global__ void silu_kernel(SiluArgs args) {
  if (auto const i = element(); i < args.count) {
    args.output[i] = args.input[i] / (1.0F + expf(-args.input[i]));
  }
}

__global__ void silu_gradient_kernel(SiluGradientArgs args) {
  if (auto const i = element(); i < args.count) {
    float const x = args.input[i];
    float const s = 1.0F / (1.0F + expf(-x));
    args.input_gradient[i] = args.output_gradient[i] * s * (1.0F + x * (1.0F - s));
  }
}

}  // namespace

void silu(msstream::CudaStream stream, SiluArgs const& args) {
  if (args.count > 0) {
    silu_kernel<<<blocks_for(args.count), kThreads, 0, stream>>>(args);
  }
}

void silu_gradient(msstream::CudaStream stream, SiluGradientArgs const& args) {
  if (args.count > 0) {
    silu_gradient_kernel<<<blocks_for(args.count), kThreads, 0, stream>>>(args);
  }
}

}  // namespace own
