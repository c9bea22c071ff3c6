// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops {

/// How the rows of one bag become one output row. The mean of an empty bag is 0.
enum class Pooling : std::uint8_t { sum, mean };

namespace kernels {

/// Which ids belong to which bag. Fixed hotness: bag b has ids [b * hotness, (b + 1) * hotness).
/// Jagged (`offsets` not null, device, [bags + 1], ascending): bag b has ids [offsets[b], offsets[b
/// + 1]). `bags` and `capacity` are what the launch is for; with `bag_count` only the first
/// *bag_count bags exist.
struct BagLayout {
  std::int64_t bags;
  std::int64_t capacity;        ///< of ids: bags * hotness, or the capacity of the jagged values
  std::int64_t hotness;         ///< unused when offsets is set
  std::int64_t const* offsets;  ///< or null
  std::int64_t const*
      bag_count;  ///< device scalar ≤ bags, or null; output rows beyond it are set to 0
};

/// output[b, :] = pooling over the valid ids of bag b of table[id, :], accumulated in float, in the
/// order of the ids: both twins give the same bits. A mean is the sum divided by the number of
/// valid ids.
struct LookupArgs {
  void const* table;  ///< [rows, width] of `table_dtype`: float32, float16 or bfloat16
  DType table_dtype;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t const* ids;
  BagLayout bags;
  Pooling pooling;
  IdReport report;
  float* output;  ///< [bags, width]
};
void embedding_lookup(HostStream stream, LookupArgs const& args);
void embedding_lookup(CudaStream stream, LookupArgs const& args);

/// Groups equal ids: unique_ids ascending, and for the u-th unique id the places [starts[u],
/// starts[u + 1]) of `positions`, which index `ids`, in ascending order; ranks[k] is the u that
/// positions[k] belongs to. Ids outside [0, rows) are left out: they come last, with a rank of -1.
/// Deterministic. `capacity` is below 2^31. What lies beyond the unique ids, and beyond the
/// positions of valid ids, is not touched, ranks excepted.
struct DeduplicateArgs {
  std::int64_t const* ids;
  BagLayout bags;  ///< tells which ids exist: hotness * bag_count of them, or offsets[bag_count]
  std::int64_t rows;
  std::int64_t* unique_ids;    ///< [capacity]
  std::int32_t* starts;        ///< [capacity + 1]
  std::int32_t* positions;     ///< [capacity]
  std::int32_t* ranks;         ///< [capacity], ascending but for the -1 at the end
  std::int64_t* unique_count;  ///< device scalar, written
  void* workspace;  ///< deduplicate_workspace_bytes(stream, capacity) bytes, 256-byte aligned
};
/// Asks no device. 0 where the CUDA twin needs one launch and no workspace.
std::size_t deduplicate_workspace_bytes(HostStream stream, std::int64_t capacity);
std::size_t deduplicate_workspace_bytes(CudaStream stream, std::int64_t capacity);
void deduplicate(HostStream stream, DeduplicateArgs const& args);
void deduplicate(CudaStream stream, DeduplicateArgs const& args);

/// row_gradients[u, :] = sum over the places p of unique id u of scale(bag(p)) *
/// output_gradient[bag(p), :], scale being 1, or 1 / (valid ids of the bag) for a mean. For u <
/// *unique_count; the rest is not touched. Deterministic: the order of the additions depends on the
/// arguments alone, ascending on the host, a fixed tree on CUDA, where no hot row runs on one warp.
struct RowGradientArgs {
  std::int64_t const* ids;  ///< needed for a mean: invalid ids do not count
  BagLayout bags;
  std::int64_t rows;
  Pooling pooling;
  std::int32_t const* starts;     ///< as deduplicate() writes it, like the next three
  std::int32_t const* positions;  ///< 16-byte aligned
  std::int32_t const* ranks;      ///< 16-byte aligned
  std::int64_t const* unique_count;
  float const* output_gradient;  ///< [bags, width]
  std::int64_t width;
  float* row_gradients;  ///< [capacity, width]
  void* workspace;       ///< row_gradient_workspace_bytes(stream, bags, width), 256-byte aligned
};
/// Asks no device. 0 on the host, and where the CUDA twin needs one launch and no workspace.
std::size_t row_gradient_workspace_bytes(HostStream stream,
                                         BagLayout const& bags,
                                         std::int64_t width);
std::size_t row_gradient_workspace_bytes(CudaStream stream,
                                         BagLayout const& bags,
                                         std::int64_t width);
void embedding_row_gradients(HostStream stream, RowGradientArgs const& args);
void embedding_row_gradients(CudaStream stream, RowGradientArgs const& args);

}  // namespace kernels
}  // namespace msstream::ops
