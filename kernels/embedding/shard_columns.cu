// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "embedding/shard_column_math.hpp"
#include "embedding/shard_columns.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kColumnThreads = 256;
constexpr std::int64_t kMostColumnBlocks = 8192;

[[nodiscard]] unsigned column_grid(std::int64_t elements) {
  return static_cast<unsigned>(
      std::min(kMostColumnBlocks, ceil_div<std::int64_t>(elements, kColumnThreads)));
}

__global__ void __launch_bounds__(kColumnThreads)
    joined_columns_kernel(__grid_constant__ JoinedColumnsArgs const args) {
  for (auto i = grid_thread(); i < args.rows * args.columns; i += grid_stride()) {
    args.output[i] = joined_element(args, i / args.columns, i % args.columns);
  }
}

__global__ void __launch_bounds__(kColumnThreads)
    spread_columns_kernel(__grid_constant__ SpreadColumnsArgs const args) {
  for (auto i = grid_thread(); i < args.ranks * args.stride; i += grid_stride()) {
    args.messages[i] = spread_element(args, i / args.stride, i % args.stride);
  }
}

}  // namespace

void joined_columns(CudaStream stream, JoinedColumnsArgs const& args) {
  if (auto const elements = args.rows * args.columns; elements > 0) {
    joined_columns_kernel<<<column_grid(elements), kColumnThreads, 0, stream>>>(args);
    check_launch("joined_columns");
  }
}

void spread_columns(CudaStream stream, SpreadColumnsArgs const& args) {
  if (auto const elements = args.ranks * args.stride; elements > 0) {
    spread_columns_kernel<<<column_grid(elements), kColumnThreads, 0, stream>>>(args);
    check_launch("spread_columns");
  }
}

}  // namespace msstream::ops::kernels
