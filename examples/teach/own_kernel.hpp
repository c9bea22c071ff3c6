// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// A kernel of your own is a set of overloads: one function for each kind of stream, with the same
/// name and arguments, so that the calling code is independent of where it runs.
namespace own {

/// The arguments of scale(): output[i] = factor * input[i].
struct ScaleArgs {
  float const* input;
  float* output;
  float factor;
  std::int64_t count;
};
void scale(msstream::HostStream stream, ScaleArgs const& args);  // in own_kernel_host.cpp
void scale(msstream::CudaStream stream, ScaleArgs const& args);  // in own_kernel.cu

}  // namespace own
