// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

/// One of many tables as the kernels see it. The first part is given, the second is filled in by
/// plan_tables().
struct alignas(16) TableDescriptor {
  void const* table = nullptr;  ///< [rows, width] of `dtype`, in device memory
  std::int64_t rows = 0;
  std::int64_t default_id = -1;    ///< what a bag without a valid id holds; below 0: nothing
  std::int32_t width = 1;          ///< at least 1
  std::int32_t hotness = 1;        ///< ids a bag where bags have no offsets
  DType dtype = DType::float32;    ///< float32, float16 or bfloat16
  Pooling pooling = Pooling::sum;  ///< all but none

  std::uint8_t columns_a_lane = 1;  ///< of one load: as many as the alignment allows, or one
  std::uint8_t log2_lanes = 0;      ///< that share a row
  std::int32_t first_tile[2] = {};  ///< of this table, among fixed tiles and among pooled tiles
  std::int64_t first_hotness = 0;   ///< the hotness of all earlier tables
  std::int64_t first_column = 0;    ///< the width of all earlier tables
};
static_assert(sizeof(TableDescriptor) == 64);

/// Many tables, and how warps share them. A chunk of kChunkBags bags of every table is cut into
/// tiles, one a warp: of as many bags as a warp serves at once, which a table's row width decides.
/// It does not depend on the batch, so that it is on the device once and for all.
struct TablePlan {
  std::vector<TableDescriptor> tables;
  /// The table of each fixed tile of a chunk, and behind those of each pooled tile.
  std::vector<std::int32_t> table_of_tile;
  std::vector<std::int64_t> first_rows;  ///< [tables + 1]: where each begins among all rows
  std::int64_t fixed_tiles = 0;          ///< where bags of hotness 1 are gathered, several a lane
  std::int64_t pooled_tiles = 0;         ///< where all bags are pooled
  std::int64_t hotness = 0;              ///< of all tables
  std::int64_t width = 0;                ///< of all tables
  std::int64_t widest = 0;               ///< of one table
  bool gathers_all = true;               ///< all of hotness 1
  bool loads_floats = true;              ///< all of float32, and aligned for loads of 16 bytes
  bool has_default_ids = false;          ///< some
  bool has_divisors = false;             ///< some of mean or sqrtn
};
[[nodiscard]] TablePlan plan_tables(std::vector<TableDescriptor> tables);

/// output[b, first_column(t) : + width(t)] = pooling over bag b of table t, as embedding_lookup()
/// has it, for b < batch. Both twins give the same bits.
///
/// Ids lie table by table. Without offsets bag b of table t has the `hotness(t)` ids from batch *
/// first_hotness(t) + b * hotness(t) on; with offsets, [tables * batch + 1] and ascending, those at
/// [offsets[t * batch + b], offsets[t * batch + b + 1]), unless BagOffsets calls the bag bad.
struct TablesLookupArgs {
  TablePlan const* plan;              ///< the host's, read before the call returns
  TableDescriptor const* tables;      ///< plan->tables in device memory
  std::int32_t const* table_of_tile;  ///< plan->table_of_tile in device memory
  std::int64_t batch;
  void const* ids;  ///< [capacity] of `id_dtype`
  DType id_dtype = DType::int64;
  std::int64_t capacity = 0;
  void const* offsets = nullptr;  ///< of `id_dtype`, or null
  std::int64_t offset_bags = 0;   ///< tables * batch where there are offsets
  /// Scalar ≤ batch, or null: how many bags of each table exist. Later output rows are set to 0;
  /// the ids lie as for the whole batch.
  std::int64_t const* batch_count = nullptr;
  float const* weights = nullptr;  ///< [capacity], or null: all are 1
  IdReport report = {};
  void* output = nullptr;  ///< [batch, plan->width] of `output_dtype`
  DType output_dtype = DType::float32;
};
void embedding_tables_lookup(HostStream stream, TablesLookupArgs const& args);
void embedding_tables_lookup(CudaStream stream, TablesLookupArgs const& args);

}  // namespace msstream::ops::kernels
