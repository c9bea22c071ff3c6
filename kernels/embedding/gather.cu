// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/move_rows.cuh"
#include "common/require_int32.hpp"
#include "common/workspace_layout.hpp"
#include "embedding/gather.hpp"
#include "ids/deduplicate.hpp"

#include <cstddef>
#include <cstdint>

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

/// The distinct ids of a scatter that are rows of the table, and the positions of each id.
struct PlacesOfIds {
  std::int64_t* ids;
  std::int32_t* starts;
  std::int32_t* positions;
  std::int32_t* ranks;
  std::int64_t* count;
  void* deduplication;
  std::int64_t* row_of_place = nullptr;  ///< [capacity]; null if not requested
  std::size_t bytes;

  PlacesOfIds(void* memory, CudaStream stream, std::int64_t capacity, bool tells_rows) {
    WorkspaceLayout workspace(memory);
    ids = workspace.take<std::int64_t>(capacity);
    starts = workspace.take<std::int32_t>(capacity + 1);
    positions = workspace.take<std::int32_t>(capacity);
    ranks = workspace.take<std::int32_t>(capacity);
    count = workspace.take<std::int64_t>(1);
    deduplication = workspace.take_bytes(deduplicate_workspace_bytes(stream, capacity));
    if (tells_rows) {
      row_of_place = workspace.take<std::int64_t>(capacity);
    }
    bytes = workspace.bytes();
  }

  __device__ std::int32_t last_place(std::int64_t rank) const {
    return positions[starts[rank + 1] - 1];
  }
};

struct LastPlaceMoves {
  PlacesOfIds places;

  __device__ std::int64_t count() const { return *places.count; }
  __device__ RowMove at(std::int64_t rank) const {
    return {places.last_place(rank), places.ids[rank]};
  }
};

/// Writes for each distinct id its row to `row_of_place` at the last position of the id, so that
/// other positions of the id are ignored.
__global__ void __launch_bounds__(kThreads)
    write_rows_of_places_kernel(PlacesOfIds places, std::int64_t capacity) {
  auto const rank = grid_thread();
  if (rank < min(*places.count, capacity)) {
    places.row_of_place[places.last_place(rank)] = places.ids[rank];
  }
}

__global__ void __launch_bounds__(kThreads)
    write_last_places_kernel(RowTargets targets, std::int32_t* place_of_row) {
  auto const i = grid_thread();
  if (i < existing_places(targets.count, targets.capacity)) {
    if (auto const id = targets.ids.at(i); is_in_range(id, targets.rows)) {
      atomicMax(place_of_row + id, static_cast<std::int32_t>(i));
    }
  }
}

void find_places(CudaStream stream, RowTargets const& targets, PlacesOfIds const& places) {
  bool const is_wide = targets.ids.wide != nullptr;
  BagView const each_place{
      .ids = is_wide ? static_cast<void const*>(targets.ids.wide) : targets.ids.narrow,
      .id_dtype = is_wide ? DType::int64 : DType::int32,
      .bags = targets.capacity,
      .capacity = targets.capacity,
      .bag_count = targets.count};
  deduplicate(stream,
              {each_place,
               targets.rows,
               places.ids,
               places.starts,
               places.positions,
               places.ranks,
               places.count,
               places.deduplication});
}

void require_few_places(char const* operation, RowTargets const& targets) {
  require_int32(operation, targets.capacity, "places");
}

void set_to_none(CudaStream stream, void* numbers, std::size_t bytes) {
  check_cuda(cudaMemsetAsync(numbers, 0xFF, bytes, stream), "cudaMemsetAsync");
}

void assign_rows(CudaStream stream, ScatterRowsArgs const& args) {
  auto const& targets = args.targets;
  if (targets.capacity == 0) {
    return;
  }
  PlacesOfIds const places(targets.workspace, stream, targets.capacity, false);
  find_places(stream, targets, places);
  move_rows(stream,
            "scatter_rows",
            LastPlaceMoves{places},
            targets.capacity,
            args.row_bytes,
            args.values,
            args.output);
}

}  // namespace

void gather_rows(CudaStream stream, GatherRowsArgs const& args) {
  GatherMoves const moves{args.ids, args.rows, args.capacity, args.count};
  move_rows(stream, "gather_rows", moves, args.capacity, args.row_bytes, args.table, args.output);
}

std::size_t scatter_rows_workspace_bytes(CudaStream stream,
                                         std::int64_t capacity,
                                         std::int64_t rows,
                                         bool keeps_others) {
  return keeps_others ? PlacesOfIds(nullptr, stream, capacity, false).bytes
                      : static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

void scatter_rows(CudaStream stream, ScatterRowsArgs const& args) {
  auto const& targets = args.targets;
  require_few_places("scatter_rows", targets);
  if (targets.rows == 0) {
    return;
  }
  if (args.keeps_others) {
    return assign_rows(stream, args);
  }
  // As every output row is written, each looks up the last position of its id, and a gather then
  // copies the rows.
  auto* const place_of_row = static_cast<std::int32_t*>(targets.workspace);
  set_to_none(stream, place_of_row, scatter_rows_workspace_bytes(stream, 0, targets.rows, false));
  if (targets.capacity > 0) {
    write_last_places_kernel<<<grid_for(targets.capacity, kThreads), kThreads, 0, stream>>>(
        targets, place_of_row);
    check_launch("scatter_rows, last places");
  }
  GatherMoves const moves{place_of_row, targets.capacity, targets.rows, nullptr};
  move_rows(stream, "scatter_rows", moves, targets.rows, args.row_bytes, args.values, args.output);
}

std::size_t scatter_rows_gradient_workspace_bytes(CudaStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t) {
  return PlacesOfIds(nullptr, stream, capacity, true).bytes;
}

void scatter_rows_gradient(CudaStream stream, ScatterRowsGradientArgs const& args) {
  auto const& targets = args.targets;
  require_few_places("scatter_rows_gradient", targets);
  if (targets.capacity == 0) {
    return;
  }
  PlacesOfIds const places(targets.workspace, stream, targets.capacity, true);
  set_to_none(stream,
              places.row_of_place,
              static_cast<std::size_t>(targets.capacity) * sizeof(*places.row_of_place));
  find_places(stream, targets, places);
  write_rows_of_places_kernel<<<grid_for(targets.capacity, kThreads), kThreads, 0, stream>>>(
      places, targets.capacity);
  check_launch("scatter_rows_gradient, last places");
  GatherMoves const moves{places.row_of_place, targets.rows, targets.capacity, nullptr};
  move_rows(stream,
            "scatter_rows_gradient",
            moves,
            targets.capacity,
            args.row_bytes,
            args.output_gradient,
            args.value_gradients);
}

}  // namespace msstream::ops::kernels
