// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ids/bag_view.hpp"
#include "ids/deduplicate.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the gradient of each distinct row of a lookup: row_gradients[u, :] = sum over the
/// positions p of unique id u of factor(p) * output_gradient[bag(p), :], for u < *unique_count.
/// Later rows are not written. factor(p) is the weight of the id at p divided by the pooling
/// divisor of its bag; for Pooling::max it is 1 in the columns whose argmax is p, and 0 otherwise.
/// For Pooling::none the output row is p.
///
/// Accumulated in float. Deterministic: the order of the additions depends on the arguments alone.
/// The order ascends on the host; on CUDA it is a fixed tree, which divides a frequent row among
/// several warps.
struct RowGradientArgs {
  BagView bags;
  std::int64_t rows;
  Pooling pooling;
  std::int32_t const* starts;     ///< from deduplicate(), as are positions, ranks and unique_count
  std::int32_t const* positions;  ///< 16-byte aligned
  std::int32_t const* ranks;      ///< 16-byte aligned
  std::int64_t const* unique_count;
  void const* output_gradient;  ///< [bags, width] of `gradient_dtype`; [capacity, width] for
                                ///< Pooling::none
  DType gradient_dtype;         ///< float32, float16 or bfloat16
  std::int64_t width;
  float* row_gradients;                  ///< [places, width]
  void* workspace;                       ///< row_gradient_workspace_bytes(…), 256-byte aligned
  std::int32_t const* argmax = nullptr;  ///< for Pooling::max: from embedding_lookup()
};
/// Returns the bytes of workspace that embedding_row_gradients() needs, without a query of the
/// device. Returns 0 on the host, and where the CUDA implementation needs one launch and no
/// workspace.
std::size_t row_gradient_workspace_bytes(HostStream stream,
                                         BagView const& bags,
                                         Pooling pooling,
                                         std::int64_t width);
std::size_t row_gradient_workspace_bytes(CudaStream stream,
                                         BagView const& bags,
                                         Pooling pooling,
                                         std::int64_t width);
void embedding_row_gradients(HostStream stream, RowGradientArgs const& args);
void embedding_row_gradients(CudaStream stream, RowGradientArgs const& args);

/// Computes the gradient of the weights of a lookup's ids, for Pooling::sum and Pooling::none:
/// weight_gradient[p] = the dot product of the row of ids[p] with the gradient of its output row, 0
/// where the id is not in the table. Added in float, in an order that depends on the implementation
/// (host or CUDA), the width, and whether rows can be read 16 bytes at a time.
struct WeightGradientArgs {
  void const* table;  ///< [rows, width] of `table_dtype`
  DType table_dtype;  ///< float32, float16 or bfloat16
  std::int64_t rows;
  std::int64_t width;
  BagView bags;
  Pooling pooling;
  float const* output_gradient;  ///< [bags, width]; [capacity, width] for Pooling::none
  float* weight_gradient;        ///< [capacity]
};
void embedding_weight_gradient(HostStream stream, WeightGradientArgs const& args);
void embedding_weight_gradient(CudaStream stream, WeightGradientArgs const& args);

}  // namespace msstream::ops::kernels
