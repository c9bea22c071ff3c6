// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// The forward and the backward kernel of SiLU. Each has one overload for host streams and one for
/// CUDA streams, as own_kernel.hpp explains.
namespace own {

/// The arguments of silu(): output[i] = input[i] * sigmoid(input[i]), known as SiLU or swish.
struct SiluArgs {
  float const* input;
  float* output;
  std::int64_t count;
};
void silu(msstream::HostStream stream, SiluArgs const& args);  // in own_gradient_host.cpp
void silu(msstream::CudaStream stream, SiluArgs const& args);  // in own_gradient.cu

/// The arguments of silu_gradient(): input_gradient[i] = output_gradient[i] * (derivative of silu
/// at input[i]).
struct SiluGradientArgs {
  float const* input;
  float const* output_gradient;
  float* input_gradient;
  std::int64_t count;
};
void silu_gradient(msstream::HostStream stream, SiluGradientArgs const& args);
void silu_gradient(msstream::CudaStream stream, SiluGradientArgs const& args);

}  // namespace own
