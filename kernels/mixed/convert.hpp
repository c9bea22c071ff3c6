// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// One array that convert() converts.
struct Conversion {
  void const* from;
  void* to;
  std::int64_t count;
};

/// Converts arrays between float32, float16 and bfloat16, rounded to nearest even; values beyond
/// the range of float16 become infinite, and NaN stays NaN. All arrays have the same two types. One
/// launch for up to 64 arrays. The host and CUDA give equal bits, apart from those of a NaN. Throws
/// std::invalid_argument for other types.
void convert(HostStream stream, std::span<Conversion const> arrays, DType from, DType to);
void convert(CudaStream stream, std::span<Conversion const> arrays, DType from, DType to);

/// The number of terms that one launch of add_halves() reads. More terms take several launches,
/// between which the sums are rounded.
inline constexpr std::size_t kHalvesPerLaunch = 32;
/// Computes output[i] = inputs[0][i] + inputs[1][i] + … for arrays of float16 or bfloat16: added in
/// this order in float32, and rounded once a launch. The output may be one of the first 32 inputs.
/// The host and CUDA give equal bits, apart from those of a NaN. There must be at least one input.
void add_halves(HostStream stream,
                std::span<void const* const> inputs,
                void* output,
                std::int64_t count,
                DType dtype);
void add_halves(CudaStream stream,
                std::span<void const* const> inputs,
                void* output,
                std::int64_t count,
                DType dtype);

}  // namespace msstream::ops::kernels
