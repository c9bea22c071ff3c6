// SPDX-License-Identifier: Apache-2.0
#include "existing_places.hpp"
#include "move_rows.cuh"
#include "workspace_layout.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/embedding_gradient.hpp>
#include <msstream/ops/kernels/gather.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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

/// The distinct ids that are rows, and the places of each.
struct PlacesOfIds {
  std::int64_t* ids;
  std::int32_t* starts;
  std::int32_t* positions;
  std::int32_t* ranks;
  std::int64_t* count;
  void* deduplication;

  PlacesOfIds(WorkspaceLayout& workspace, CudaStream stream, std::int64_t capacity)
      : ids(workspace.take<std::int64_t>(capacity)),
        starts(workspace.take<std::int32_t>(capacity + 1)),
        positions(workspace.take<std::int32_t>(capacity)),
        ranks(workspace.take<std::int32_t>(capacity)),
        count(workspace.take<std::int64_t>(1)),
        deduplication(workspace.take_bytes(deduplicate_workspace_bytes(stream, capacity))) {}

  __device__ std::int32_t last_place(std::int64_t rank) const {
    return positions[starts[rank + 1] - 1];
  }
};

/// Where each row, or each place, is moved from: a place below 2^31, or a row.
template <bool kToRows>
using Source = std::conditional_t<kToRows, std::int32_t, std::int64_t>;

struct ScatterMemory {
  PlacesOfIds places;
  void* sources;
  std::size_t bytes;

  ScatterMemory(void* memory, CudaStream stream, std::int64_t capacity, std::int64_t source_bytes)
      : ScatterMemory(WorkspaceLayout(memory), stream, capacity, source_bytes) {}

 private:
  ScatterMemory(WorkspaceLayout workspace,
                CudaStream stream,
                std::int64_t capacity,
                std::int64_t source_bytes)
      : places(workspace, stream, capacity),
        sources(workspace.take<std::byte>(source_bytes)),
        bytes(workspace.bytes()) {}
};

struct LastPlaceMoves {
  PlacesOfIds places;

  __device__ std::int64_t count() const { return *places.count; }
  __device__ RowMove at(std::int64_t rank) const {
    return {places.last_place(rank), places.ids[rank]};
  }
};

/// sources[id] = the id's last place, or the other way round; others stay as they are.
template <bool kToRows>
__global__ void __launch_bounds__(kThreads)
    write_sources_kernel(PlacesOfIds places, std::int64_t capacity, Source<kToRows>* sources) {
  auto const rank = grid_thread();
  if (rank < min(*places.count, capacity)) {
    auto const id = places.ids[rank];
    auto const place = places.last_place(rank);
    if constexpr (kToRows) {
      sources[id] = place;
    } else {
      sources[place] = id;
    }
  }
}

void find_places(CudaStream stream, RowTargets const& targets, PlacesOfIds const& places) {
  require(targets.capacity <= std::numeric_limits<std::int32_t>::max(),
          "scatter_rows: ",
          targets.capacity,
          " places; expected fewer than 2^31");
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

/// Every row of `to` is written, by what it gets from the last place of its id, or a place from its
/// id's row; zeros where there is none.
template <bool kToRows>
void move_from_sources(CudaStream stream,
                       char const* name,
                       RowTargets const& targets,
                       std::int64_t row_bytes,
                       void const* from,
                       void* to) {
  auto const from_rows = kToRows ? targets.capacity : targets.rows;
  auto const to_rows = kToRows ? targets.rows : targets.capacity;
  auto const source_bytes = to_rows * static_cast<std::int64_t>(sizeof(Source<kToRows>));
  ScatterMemory const memory(targets.workspace, stream, targets.capacity, source_bytes);
  auto* const sources = static_cast<Source<kToRows>*>(memory.sources);
  check_cuda(cudaMemsetAsync(sources, 0xFF, static_cast<std::size_t>(source_bytes), stream),
             "cudaMemsetAsync");
  if (targets.capacity > 0) {
    find_places(stream, targets, memory.places);
    write_sources_kernel<kToRows><<<grid_for(targets.capacity, kThreads), kThreads, 0, stream>>>(
        memory.places, targets.capacity, sources);
    check_launch(name);
  }
  GatherMoves const moves{sources, from_rows, to_rows, nullptr};
  move_rows(stream, name, moves, to_rows, row_bytes, from, to);
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
  auto const source_bytes = rows * static_cast<std::int64_t>(sizeof(Source<true>));
  return ScatterMemory(nullptr, stream, capacity, keeps_others ? 0 : source_bytes).bytes;
}

void scatter_rows(CudaStream stream, ScatterRowsArgs const& args) {
  auto const& targets = args.targets;
  if (targets.rows == 0) {
    return;
  }
  if (!args.keeps_others) {
    return move_from_sources<true>(
        stream, "scatter_rows", targets, args.row_bytes, args.values, args.output);
  }
  if (targets.capacity == 0) {
    return;
  }
  ScatterMemory const memory(targets.workspace, stream, targets.capacity, 0);
  find_places(stream, targets, memory.places);
  move_rows(stream,
            "scatter_rows",
            LastPlaceMoves{memory.places},
            targets.capacity,
            args.row_bytes,
            args.values,
            args.output);
}

std::size_t scatter_rows_gradient_workspace_bytes(CudaStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t) {
  auto const source_bytes = capacity * static_cast<std::int64_t>(sizeof(Source<false>));
  return ScatterMemory(nullptr, stream, capacity, source_bytes).bytes;
}

void scatter_rows_gradient(CudaStream stream, ScatterRowsGradientArgs const& args) {
  if (args.targets.capacity > 0) {
    move_from_sources<false>(stream,
                             "scatter_rows_gradient",
                             args.targets,
                             args.row_bytes,
                             args.output_gradient,
                             args.value_gradients);
  }
}

}  // namespace msstream::ops::kernels
