// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/fp8.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The indices of the numbers that quantise() writes behind each other.
inline constexpr std::int64_t kFp8Inverse = 0;  ///< 1 / scale
inline constexpr std::int64_t kFp8Largest = 1;  ///< the largest magnitude of a finite element
inline constexpr std::int64_t kFp8Scales = 2;   ///< how many there are

/// Quantises a matrix: rounds its elements, multiplied by fp8_scale() of the largest magnitude of
/// its finite elements, to 8-bit floats as to_fp8() does. An infinite element becomes NaN. Writes
/// the matrix, its transpose or both, with rows and columns of zeros behind their own up to
/// multiples of kFp8Multiple.
///
/// The host and CUDA give equal bits. On CUDA one kernel finds the largest magnitude, and another
/// one reads each element once and writes both copies.
struct QuantiseArgs {
  void const* matrix;        ///< [rows, columns] of `dtype`, row-major
  std::uint8_t* plain;       ///< [rows, columns], padded; null if it is not wanted
  std::uint8_t* transposed;  ///< [columns, rows], padded; null if it is not wanted
  float* scales;             ///< [kFp8Scales]
  std::int64_t rows;
  std::int64_t columns;
  Fp8Format format;
  DType dtype;  ///< float32, float16 or bfloat16
};
void quantise(HostStream stream, QuantiseArgs const& args);
void quantise(CudaStream stream, QuantiseArgs const& args);

}  // namespace msstream::ops::kernels
