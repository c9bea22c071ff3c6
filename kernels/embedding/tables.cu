// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "embedding/checks.hpp"
#include "embedding/table_descriptors.cuh"
#include "embedding/tables.cuh"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

// The tiles of a lookup in many tables, here three tables of 32, 32 and 4 lanes per row, of which
// the first has hotness 1 and the others are pooled:
//
//   tiles of a chunk  | 0 ... 7: table 0 | 8 ... 39: table 1 | 40 ... 43: table 2 |
//   a tile            | 4 bags, gathered | 1 bag, pooled     | 8 bags, pooled     |
//
// Warp w takes tile w mod 44 of the bags [32 * (w / 44), 32 * (w / 44) + 32). All lanes of a warp
// therefore take the same branches on the table, blocks that run at the same time write
// neighbouring output rows, and only warps of the last chunk can be without work. A warp waits
// first for the descriptor, then for the ids, then for the rows. All lanes stay to the end, because
// a warp reports its bad ids together.

constexpr int kThreads = 256;

/// Processes one tile of bags per warp. The launch bounds ask for as many blocks per multiprocessor
/// as keep its memory busy with sums of rows; with one, they leave the number of registers to the
/// compiler.
template <class Tables, TableKinds Kinds>
__global__ void __launch_bounds__(kThreads, only_sums(Kinds) ? 3 : 1)
    embedding_tables_kernel(__grid_constant__ Tables const tables,
                            __grid_constant__ TablesLookupArgs const args,
                            unsigned tiles_a_chunk,
                            BagWidths const widths) {
  unsigned const warp = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  unsigned const chunk = warp / tiles_a_chunk;
  auto const tile_of_chunk = static_cast<int>(warp - chunk * tiles_a_chunk);
  std::int64_t const first_of_chunk = chunk * kChunkBags;
  if (first_of_chunk >= args.batch) {
    return;
  }
  int const number = tables.table_of(tile_of_chunk);
  auto const& table = tables.get(number);
  bool const gathers = only_gathers(Kinds) || is_gathered(args, table);
  // The element is selected without an index, because an indexed array does not stay in registers.
  int const first_tile = pools_all(args) ? table.first_tile[1] : table.first_tile[0];
  auto const first_bag = first_of_chunk + (std::int64_t{tile_of_chunk - first_tile}
                                           << log2_bags_of_tile(table, gathers));
  if (first_bag >= args.batch) {
    return;
  }
  TableTile const tile{table, number, first_bag, existing_bags(args)};
  OutOfRangeIds bad;
  switch (only_floats(Kinds) ? DType::float32 : table.dtype) {
    case DType::float16:
      look_up_tile<Kinds, float16>(args, tile, widths, bad);
      break;
    case DType::bfloat16:
      look_up_tile<Kinds, bfloat16>(args, tile, widths, bad);
      break;
    default:
      look_up_tile<Kinds, float>(args, tile, widths, bad);
  }
  report_out_of_range(args.report, bad, table.rows, number);
}

template <class Tables, TableKinds Kinds>
void launch(CudaStream stream, TablesLookupArgs const& args) {
  auto const& plan = *args.plan;
  auto const tiles = pools_all(args) ? plan.pooled_tiles : plan.fixed_tiles;
  auto const warps = ceil_div(args.batch, kChunkBags) * tiles;
  require_int32("embedding_tables_lookup", warps, "warps of a launch");
  embedding_tables_kernel<Tables, Kinds><<<grid_for(warps, kThreads / 32), kThreads, 0, stream>>>(
      Tables(args),
      args,
      static_cast<unsigned>(tiles),
      {stride_or(args.output_stride, plan.width), plan.argmax_width});
  check_launch("embedding_tables_lookup");
}

template <class Tables>
void launch_kinds(CudaStream stream, TablesLookupArgs const& args) {
  auto const& plan = *args.plan;
  if (args.argmax != nullptr && plan.argmax_width > 0) {
    launch<Tables, TableKinds::any_with_argmax>(stream, args);
  } else if (!plan.gathers_all || pools_all(args)) {
    bool const adds_floats = plan.loads_floats && plan.least_log2_lanes >= kLog2LeastSumLanes &&
                             args.weights == nullptr && plan.argmax_width == 0;
    adds_floats ? launch<Tables, TableKinds::float_sums>(stream, args)
                : launch<Tables, TableKinds::any>(stream, args);
  } else if (plan.loads_floats && args.output_dtype == DType::float32) {
    launch<Tables, TableKinds::float_gathers>(stream, args);
  } else {
    launch<Tables, TableKinds::gathers>(stream, args);
  }
}

}  // namespace

void embedding_tables_lookup(CudaStream stream, TablesLookupArgs const& args) {
  require_tables_lookup(args);
  auto const tables = args.plan->tables.size();
  if (args.batch == 0 || tables == 0) {
    return;
  }
  if (tables <= kInlineTables) {
    launch_kinds<InlineTables>(stream, args);
  } else {
    launch_kinds<DeviceTables>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
