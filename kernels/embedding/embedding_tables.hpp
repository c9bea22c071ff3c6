// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"
#include "ids/bag_view.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

/// The description of one of many tables for lookup kernels. The caller sets the members up to
/// `pooling`; plan_tables() sets the members after it.
struct alignas(16) TableDescriptor {
  void const* table = nullptr;  ///< [rows, width] of `dtype`, in device memory
  std::int64_t rows = 0;
  std::int64_t default_id = -1;    ///< id used for a bag without a valid id; none if negative
  std::int32_t width = 1;          ///< at least 1
  std::int32_t hotness = 1;        ///< ids per bag if bags have no offsets
  DType dtype = DType::float32;    ///< float32, float16 or bfloat16
  Pooling pooling = Pooling::sum;  ///< any pooling except none

  std::uint8_t columns_a_lane = 1;  ///< columns of one load: the most that are aligned, or one
  std::uint8_t log2_lanes = 0;      ///< log2 of the number of lanes that share a row
  std::int32_t first_tile[2] = {};  ///< the table's first gathered tile and first pooled tile
  /// For Pooling::max: the sum of the widths of all earlier tables of Pooling::max.
  std::int32_t first_argmax_column = 0;
  std::int64_t first_hotness = 0;  ///< the sum of the hotness of all earlier tables
  std::int64_t first_column = 0;   ///< the sum of the widths of all earlier tables
};
static_assert(sizeof(TableDescriptor) == 64);

/// The tables of a lookup in many tables, and the division of the work among warps. A chunk of
/// kChunkBags bags of every table is cut into tiles, one per warp. A tile has as many bags as a
/// warp processes at once, which depends on the table's row width. The plan does not depend on the
/// batch, so that it is uploaded to the device only once.
struct TablePlan {
  std::vector<TableDescriptor> tables;
  /// The table number of each gathered tile of a chunk (bags of one id), followed by that of each
  /// pooled tile.
  std::vector<std::int32_t> table_of_tile;
  std::vector<std::int64_t> first_rows;  ///< [tables + 1]: number of rows in all earlier tables
  std::int64_t fixed_tiles = 0;          ///< tiles that gather bags of hotness 1, several per lane
  std::int64_t pooled_tiles = 0;         ///< tiles that pool all their bags
  std::int64_t hotness = 0;              ///< the sum of all tables' hotness
  std::int64_t width = 0;                ///< the sum of all tables' widths
  std::int64_t widest = 0;               ///< the largest width of a table
  std::int64_t argmax_width = 0;         ///< the sum of the widths of the tables of Pooling::max
  bool gathers_all = true;               ///< whether all tables have hotness 1
  bool gathers_maxima = true;            ///< whether all tables of Pooling::max have hotness 1
  bool loads_floats = true;              ///< whether all tables are float32, aligned to 16 bytes
  int least_log2_lanes = 5;              ///< log2 of the fewest lanes that share a row of a table
  bool has_default_ids = false;          ///< whether any table has a default id
  bool has_divisors = false;             ///< whether any table has Pooling::mean or Pooling::sqrtn
};
[[nodiscard]] TablePlan plan_tables(std::vector<TableDescriptor> tables);

/// The widths of the arrays that have one row per bag, for kernels, which cannot read a plan.
struct BagWidths {
  std::int64_t output;  ///< elements from one row of the output, or of its gradient, to the next
  std::int64_t argmax;  ///< TablePlan::argmax_width
};

/// Pools embedding rows of many tables: output[b, first_column(t) : + width(t)] is the pooling of
/// bag b of table t, for b < batch, with the same values as from embedding_lookup(). The host and
/// the CUDA implementation give the same bits.
///
/// Ids are stored table by table. Without offsets, bag b of table t has the `hotness(t)` ids from
/// batch * first_hotness(t) + b * hotness(t) on. With offsets, [tables * batch + 1] and ascending,
/// bag b of table t has the ids at [offsets[t * batch + b], offsets[t * batch + b + 1]), or none if
/// these offsets are invalid (BagOffsets::is_bad).
struct TablesLookupArgs {
  TablePlan const* plan;              ///< host memory, read before the call returns
  TableDescriptor const* tables;      ///< plan->tables in device memory
  std::int32_t const* table_of_tile;  ///< plan->table_of_tile in device memory
  std::int64_t batch;
  void const* ids;  ///< [capacity] of `id_dtype`
  DType id_dtype = DType::int64;
  std::int64_t capacity = 0;
  void const* offsets = nullptr;  ///< [offset_bags + 1] of `id_dtype`, or null
  std::int64_t offset_bags = 0;   ///< tables * batch if there are offsets
  /// The number of bags of each table that exist, a device scalar ≤ batch, or null if all exist.
  /// Output rows of bags that do not exist are set to 0. The ids have the layout of the whole
  /// batch.
  std::int64_t const* batch_count = nullptr;
  float const* weights = nullptr;  ///< [capacity], or null if all weights are 1
  IdReport report = {};
  void* output = nullptr;  ///< [batch, plan->width] of `output_dtype`
  DType output_dtype = DType::float32;
  /// Elements from one output row to the next, at least plan->width; 0 means plan->width.
  std::int64_t output_stride = 0;
  /// An output array [batch, plan->argmax_width], or null. The columns of a table of Pooling::max
  /// begin at its first_argmax_column. Receives for each output element of these tables the index
  /// of the id whose row has the maximum, the first of equal ones; capacity + t * batch + b if it
  /// is the default id of bag b of table t; -1 if the bag has no row.
  std::int32_t* argmax = nullptr;
};
/// Returns the number of positions that a lookup in many tables reads ids from: one per id, and one
/// more per bag of all tables if any table has a default id.
[[nodiscard]] inline std::int64_t place_capacity(TablesLookupArgs const& args) {
  auto const& plan = *args.plan;
  auto const all_bags = static_cast<std::int64_t>(plan.tables.size()) * args.batch;
  return args.capacity + (plan.has_default_ids ? all_bags : 0);
}
/// Returns the elements from one row of a lookup's output, or of its gradient, to the next.
[[nodiscard]] constexpr std::int64_t stride_or(std::int64_t stride, std::int64_t width) {
  return stride != 0 ? stride : width;
}
void embedding_tables_lookup(HostStream stream, TablesLookupArgs const& args);
void embedding_tables_lookup(CudaStream stream, TablesLookupArgs const& args);

}  // namespace msstream::ops::kernels
