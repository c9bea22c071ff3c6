// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// A kernel of your own is a set of overloads: one function a kind of stream, same name, same
/// arguments, so that the code that calls it does not care where it runs.
namespace own {

/// output[i] = factor * input[i]
struct ScaleArgs {
  float const* input;
  float* output;
  float factor;
  std::int64_t count;
};
void scale(msstream::HostStream stream, ScaleArgs const& args);  // own_kernel_host.cpp
void scale(msstream::CudaStream stream, ScaleArgs const& args);  // own_kernel.cu

}  // namespace own
