// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msstream {

/// How matrix products of float32 are computed. tf32: on the tensor cores, with factors rounded to
/// 10 bits of mantissa and float32 sums: several times faster, errors around 1e-3 of the terms. A
/// backend that has no such thing computes in float32.
enum class MatmulPrecision : std::uint8_t { float32, tf32 };

/// What a stream group's library handles are made with.
struct LibraryOptions {
  std::size_t workspace_bytes = std::size_t{4} << 20U;
  MatmulPrecision matmul_precision = MatmulPrecision::float32;
};

}  // namespace msstream
