// SPDX-License-Identifier: Apache-2.0
#include "existing_places.hpp"
#include "move_rows.cuh"

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/gather.hpp>

#include <limits>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

struct GatherMoves {
  IdArray ids;
  std::int64_t rows;
  std::int64_t capacity;
  std::int64_t const* existing_count;

  __device__ std::int64_t count() const { return existing_places(existing_count, capacity); }
  __device__ RowMove at(std::int64_t i) const {
    auto const id = ids.at(i);
    return {is_in_range(id, rows) ? id : -1, i};
  }
};

/// The last place of each id that counts: what the workspace holds for the rows that have one.
__device__ bool is_last_place(RowTargets const& targets, std::int64_t id, std::int64_t i) {
  return is_in_range(id, targets.rows) &&
         static_cast<std::int32_t const*>(targets.workspace)[id] == i;
}

struct ScatterMoves {
  RowTargets targets;

  __device__ std::int64_t count() const { return existing_places(targets.count, targets.capacity); }
  __device__ RowMove at(std::int64_t i) const {
    auto const id = targets.ids.at(i);
    return {i, is_last_place(targets, id, i) ? id : -1};
  }
};

struct GradientMoves {
  RowTargets targets;

  __device__ std::int64_t count() const { return targets.capacity; }
  __device__ RowMove at(std::int64_t i) const {
    if (i >= existing_places(targets.count, targets.capacity)) {
      return {-1, i};
    }
    auto const id = targets.ids.at(i);
    return {is_last_place(targets, id, i) ? id : -1, i};
  }
};

/// Only of the rows that some place names: the table may be much longer.
__global__ void __launch_bounds__(kThreads) forget_places_kernel(RowTargets targets) {
  auto const i = grid_thread();
  if (i < existing_places(targets.count, targets.capacity)) {
    if (auto const id = targets.ids.at(i); is_in_range(id, targets.rows)) {
      static_cast<std::int32_t*>(targets.workspace)[id] = -1;
    }
  }
}

__global__ void __launch_bounds__(kThreads) last_places_kernel(RowTargets targets) {
  auto const i = grid_thread();
  if (i < existing_places(targets.count, targets.capacity)) {
    if (auto const id = targets.ids.at(i); is_in_range(id, targets.rows)) {
      atomicMax(static_cast<std::int32_t*>(targets.workspace) + id, static_cast<std::int32_t>(i));
    }
  }
}

void find_last_places(CudaStream stream, RowTargets const& targets, bool of_all_rows) {
  require(targets.capacity <= std::numeric_limits<std::int32_t>::max(),
          "scatter_rows: ",
          targets.capacity,
          " places; expected fewer than 2^31");
  auto const blocks = grid_for(targets.capacity, kThreads);
  if (of_all_rows) {
    check_cuda(
        cudaMemsetAsync(
            targets.workspace, 0xFF, scatter_rows_workspace_bytes(stream, targets.rows), stream),
        "cudaMemsetAsync");
  } else if (blocks > 0) {
    forget_places_kernel<<<blocks, kThreads, 0, stream>>>(targets);
    check_launch("scatter_rows, rows named");
  }
  if (blocks > 0) {
    last_places_kernel<<<blocks, kThreads, 0, stream>>>(targets);
    check_launch("scatter_rows, last places");
  }
}

}  // namespace

void gather_rows(CudaStream stream, GatherRowsArgs const& args) {
  GatherMoves const moves{args.ids, args.rows, args.capacity, args.count};
  move_rows(stream, "gather_rows", moves, args.capacity, args.row_bytes, args.table, args.output);
}

std::size_t scatter_rows_workspace_bytes(CudaStream, std::int64_t rows) {
  return static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

void scatter_rows(CudaStream stream, ScatterRowsArgs const& args) {
  auto const& targets = args.targets;
  if (targets.rows == 0) {
    return;
  }
  find_last_places(stream, targets, !args.keeps_others);
  if (args.keeps_others) {
    ScatterMoves const moves{targets};
    move_rows(
        stream, "scatter_rows", moves, targets.capacity, args.row_bytes, args.values, args.output);
  } else {
    // Every row is written: it looks up its last place, as a gather does.
    GatherMoves const moves{static_cast<std::int32_t const*>(targets.workspace),
                            targets.capacity,
                            targets.rows,
                            nullptr};
    move_rows(
        stream, "scatter_rows", moves, targets.rows, args.row_bytes, args.values, args.output);
  }
}

void scatter_rows_gradient(CudaStream stream, ScatterRowsGradientArgs const& args) {
  auto const& targets = args.targets;
  find_last_places(stream, targets, false);
  GradientMoves const moves{targets};
  move_rows(stream,
            "scatter_rows_gradient",
            moves,
            targets.capacity,
            args.row_bytes,
            args.output_gradient,
            args.value_gradients);
}

}  // namespace msstream::ops::kernels
