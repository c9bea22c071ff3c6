// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes its own AVX-512 intrinsics for uninitialised; they are inlined into Eigen's
// products.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#include <cstdint>

namespace msstream::ops::kernels {

/// A row-major matrix over memory of somebody else.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::Map<Matrix const> matrix(float const* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}
inline Eigen::Map<Matrix> matrix(float* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}

}  // namespace msstream::ops::kernels
