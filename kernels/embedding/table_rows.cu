// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "embedding/table_row.hpp"
#include "ids/bag_report.cuh"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

// Computes the row of one id per thread. All lanes stay to the end, because a warp reports its bad
// ids together. The ids of one warp may belong to several tables, and the report gives the number
// of rows of the reported id's table. `kHasOffsets` is false for bags of a fixed size, whose kernel
// then has no code for invalid offsets.
template <bool kHasOffsets>
__global__ void __launch_bounds__(kThreads)
    table_rows_kernel(__grid_constant__ TableRowsArgs const args, IdBags<std::int64_t> bags) {
  if constexpr (!kHasOffsets) {
    bags.offsets = nullptr;
  }
  auto const places = bags.existing_places();
  auto const place = places.begin + grid_thread();
  OutOfRangeIds bad;
  int table = -1;
  std::int64_t rows_of_table = 0;
  if (place < places.end) {
    auto const found = table_row_of(args, bags, place);
    args.rows[place] = found.row;
    table = static_cast<int>(found.table);
    rows_of_table = found.rows_of_table;
    if (!found.is_valid) {
      bad.add(found.id);
    }
  }
  bool const reports = args.report.count != nullptr || args.report.trap != nullptr;
  if (reports && bags.offsets != nullptr) {
    for (auto bag = grid_thread(); bag < bags.existing(); bag += grid_stride()) {
      if (bags.is_bad(bag)) {
        report_bad(args.report, bags.bag_offsets(), bag);
      }
    }
  }
  if (!args.hashed) {
    report_out_of_range(args.report, bad, rows_of_table, table);
  }
}

}  // namespace

void table_rows(CudaStream stream, TableRowsArgs const& args) {
  require_table_rows(args);
  bool const has_offsets = args.bags.offsets != nullptr;
  // Offsets may be bad, and are reported, also without ids.
  auto const threads = std::max<std::int64_t>(args.bags.capacity, has_offsets ? 1 : 0);
  if (threads > 0) {
    auto* const kernel = has_offsets ? table_rows_kernel<true> : table_rows_kernel<false>;
    kernel<<<grid_for(threads, kThreads), kThreads, 0, stream.handle>>>(
        args, IdBags<std::int64_t>(args.bags));
    check_launch("table_rows");
  }
}

}  // namespace msstream::ops::kernels
