// SPDX-License-Identifier: Apache-2.0
// The file that scripts/compile_benchmark.py gives to nvcc: a kernel of a user's own, and the
// operation that issues it, with the headers that they need. The file is only compiled, never run.
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>

namespace ms = msstream;

namespace {

__global__ void scale_kernel(float const* input, float* output, float factor, std::int64_t count) {
  std::int64_t const i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    output[i] = factor * input[i];
  }
}

}  // namespace

/// Returns factor * input, computed on the stream of the current scope.
ms::Tensor<float> scale(ms::Tensor<float> const& input, float factor) {
  ms::Tensor<float> output(input.device(), input.shape());
  ms::issue("scale",
            ms::reads(input),
            ms::writes(output),
            [from = input.data(), to = output.data(), factor, count = input.count()](
                ms::CudaStream stream) {
              if (count > 0) {
                auto const blocks = static_cast<unsigned>((count + 255) / 256);
                scale_kernel<<<blocks, 256, 0, stream>>>(from, to, factor, count);
              }
            });
  return output;
}
