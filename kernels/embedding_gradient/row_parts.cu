// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "embedding_gradient/row_parts.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

/// Copies the rows and ids of one part of a row gradient into the merged gradient, each row with a
/// group of lanes.
template <int Count>
__global__ void merge_rows_kernel(MergeRowsArgs args, RowLanes shape) {
  auto const row = grid_thread() >> shape.log2_lanes;
  auto const begin = args.begin != nullptr ? *args.begin : 0;
  auto const rows = clamped(*args.end - begin, args.capacity);
  if (grid_thread() == 0 && args.merged_count != nullptr) {
    *args.merged_count = rows;
  }
  if (row >= args.capacity) {
    return;
  }
  bool const exists = row < rows;
  if (shape.lane() == 0) {
    args.merged_ids[row] = exists ? args.ids[begin + row] + args.first_row : -1;
  }
  if (!exists) {
    return;
  }
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    store_columns(args.merged_values + row * shape.width + column,
                  load_columns<Count>(args.values + (begin + row) * args.stride + column));
  }
}

template <int Count>
void launch(CudaStream stream, MergeRowsArgs const& args) {
  RowLanes const shape(args.width, Count);
  auto const rows = std::max<std::int64_t>(args.capacity, 1);
  merge_rows_kernel<Count>
      <<<grid_for(rows, kThreads / shape.lanes()), kThreads, 0, stream>>>(args, shape);
  check_launch("merge_rows");
}

}  // namespace

void merge_rows(CudaStream stream, MergeRowsArgs args) {
  if (args.capacity == 0 && args.merged_count == nullptr) {
    return;
  }
  args.stride = args.stride != 0 ? args.stride : args.width;
  if (allows_vectors(args.values, args.stride, 4) &&
      allows_stores(args.merged_values, args.width, 4)) {
    launch<4>(stream, args);
  } else {
    launch<1>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
