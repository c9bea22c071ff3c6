// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the elementwise part of a cross layer: output = first * projected + input, in float32,
/// for arrays of one type. The output may be any of the other arrays.
struct CrossArgs {
  void const* first;      ///< the input of the first cross layer
  void const* projected;  ///< the product of the layer's matrices with `input`, plus bias
  void const* input;
  void* output;
  std::int64_t count;
  DType dtype;  ///< float32, float16 or bfloat16
};
void cross(HostStream stream, CrossArgs const& args);
void cross(CudaStream stream, CrossArgs const& args);

}  // namespace msstream::ops::kernels
