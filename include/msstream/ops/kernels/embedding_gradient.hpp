// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The places of ids: those of `ids`, and behind them one a bag where there is a default id.
[[nodiscard]] constexpr std::int64_t place_capacity(BagView const& bags) {
  return bags.capacity + (bags.default_id >= 0 ? bags.bags : 0);
}

/// Groups equal ids: unique_ids ascending, and for the u-th unique id the places [starts[u],
/// starts[u + 1]) of `positions`, in ascending order; ranks[k] is the u that positions[k] belongs
/// to. A position below the bags' capacity indexes `ids`; capacity + b is the default id of bag b,
/// which has no valid id. Ids outside [0, rows) are left out: they come last, with a rank of -1. So
/// are those of bags that BagOffsets calls bad, if `pools`; a lookup that does not pool has rows of
/// those, too. Deterministic. What lies beyond the unique ids, and beyond the positions of valid
/// ids, is not touched, ranks excepted.
struct DeduplicateArgs {
  BagView bags;  ///< tells which ids exist; its place_capacity() is below 2^31
  std::int64_t rows;
  std::int64_t* unique_ids;    ///< [places]
  std::int32_t* starts;        ///< [places + 1]
  std::int32_t* positions;     ///< [places]
  std::int32_t* ranks;         ///< [places], ascending but for the -1 at the end
  std::int64_t* unique_count;  ///< device scalar, written
  void* workspace;             ///< deduplicate_workspace_bytes(stream, places), 256-byte aligned
  bool pools = true;
};
/// Asks no device. 0 where the CUDA twin needs one launch and no workspace.
std::size_t deduplicate_workspace_bytes(HostStream stream, std::int64_t places);
std::size_t deduplicate_workspace_bytes(CudaStream stream, std::int64_t places);
void deduplicate(HostStream stream, DeduplicateArgs const& args);
void deduplicate(CudaStream stream, DeduplicateArgs const& args);

/// row_gradients[u, :] = sum over the places p of unique id u of factor(p) *
/// output_gradient[bag(p), :], where factor is the weight of the place over the divisor of its
/// bag's pooling; for max it is 1 in the columns whose argmax is p, else 0; without pooling p is
/// the output row. For u < *unique_count; the rest is not touched. Deterministic: the order of the
/// additions depends on the arguments alone, ascending on the host, a fixed tree on CUDA, where no
/// hot row runs on one warp. Accumulated in float.
struct RowGradientArgs {
  BagView bags;
  std::int64_t rows;
  Pooling pooling;
  std::int32_t const* starts;     ///< as deduplicate() writes it, like the next three
  std::int32_t const* positions;  ///< 16-byte aligned
  std::int32_t const* ranks;      ///< 16-byte aligned
  std::int64_t const* unique_count;
  void const* output_gradient;  ///< [bags, width] of `gradient_dtype`
  DType gradient_dtype;         ///< float32, float16 or bfloat16
  std::int64_t width;
  float* row_gradients;                  ///< [places, width]
  void* workspace;                       ///< row_gradient_workspace_bytes(…), 256-byte aligned
  std::int32_t const* argmax = nullptr;  ///< for max: as embedding_lookup() writes it
};
/// Asks no device. 0 on the host, and where the CUDA twin needs one launch and no workspace.
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

/// weight_gradient[p] = the product of the row of the id at place p with the gradient of its output
/// row, for sum and none; 0 where there is no id of the table. Added in float, in an order that
/// depends on the twin, the width, and whether rows can be read 16 bytes at a time.
struct WeightGradientArgs {
  void const* table;  ///< [rows, width] of `table_dtype`
  DType table_dtype;  ///< float32, float16 or bfloat16
  std::int64_t rows;
  std::int64_t width;
  BagView bags;
  Pooling pooling;
  float const* output_gradient;  ///< [bags, width]; without pooling [capacity, width]
  float* weight_gradient;        ///< [capacity]
};
void embedding_weight_gradient(HostStream stream, WeightGradientArgs const& args);
void embedding_weight_gradient(CudaStream stream, WeightGradientArgs const& args);

}  // namespace msstream::ops::kernels
