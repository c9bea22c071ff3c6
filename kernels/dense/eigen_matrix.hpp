// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 wrongly reports values in its own AVX-512 intrinsics, which are inlined into Eigen's
// products, as uninitialised.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#include <cstdint>

namespace msstream::ops::kernels {

/// The type of a row-major matrix, which matrix() maps onto memory that the caller owns.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::Map<Matrix const> matrix(float const* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}
inline Eigen::Map<Matrix> matrix(float* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}

}  // namespace msstream::ops::kernels
