// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr std::int64_t kMostTop = 256;

/// Finds the k greatest elements of each row, in descending order, and their columns. Of equal
/// elements the one in the lower column comes first. NaN is greater than any number, and -0 equals
/// +0.
struct TopKArgs {
  float const* values;  ///< [rows, columns]
  std::int64_t rows;
  std::int64_t columns;   ///< below 2^31
  std::int64_t k;         ///< ≤ columns and ≤ kMostTop
  float* top;             ///< [rows, k]
  std::int64_t* indices;  ///< [rows, k]
  void* workspace;        ///< top_k_workspace_bytes(stream, columns) bytes, 8-byte aligned
};
/// Returns the bytes of workspace that top_k() needs, without a query of the device. Returns 0 on
/// CUDA.
std::size_t top_k_workspace_bytes(HostStream stream, std::int64_t columns);
std::size_t top_k_workspace_bytes(CudaStream stream, std::int64_t columns);
void top_k(HostStream stream, TopKArgs const& args);
void top_k(CudaStream stream, TopKArgs const& args);

/// Computes the gradient of top_k(): value_gradients[r, indices[r, j]] = top_gradient[r, j], and 0
/// for all other elements. Indices outside [0, columns) are ignored. The indices of a row must be
/// distinct.
struct TopKGradientArgs {
  float const* top_gradient;    ///< [rows, k]
  std::int64_t const* indices;  ///< [rows, k]
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t k;
  float* value_gradients;  ///< [rows, columns]
};
void top_k_gradient(HostStream stream, TopKGradientArgs const& args);
void top_k_gradient(CudaStream stream, TopKGradientArgs const& args);

}  // namespace msstream::ops::kernels
