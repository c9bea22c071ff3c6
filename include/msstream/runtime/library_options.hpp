// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msstream {

/// The precision of float32 matrix products. `tf32` computes them on the tensor cores, with factors
/// rounded to 10 bits of mantissa and float32 sums: several times faster, with errors around 1e-3
/// of the terms. A backend without tf32 computes in float32.
enum class MatmulPrecision : std::uint8_t { float32, tf32 };

/// The options for creating a stream group's library handles.
struct LibraryOptions {
  std::size_t workspace_bytes = std::size_t{4} << 20U;
  MatmulPrecision matmul_precision = MatmulPrecision::float32;
};

}  // namespace msstream
