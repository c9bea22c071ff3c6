// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "unique_groups.cuh"
#include "unique_sort.cuh"

#include <cub/block/block_scan.cuh>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

template <class Entries>
__global__ void __launch_bounds__(kTileThreads) count_groups_kernel(
    UniqueArgs args, KeyCoding coding, Entries entries, Tiles tiles, Begun* totals) {
  auto const end = tiles.end(existing_ids(args));
  Begun begun{0, 0};
  for (auto turn = tiles.begin(); turn < end; turn += Tiles::kTurn) {
    Neighbours<Entries> const mine(entries, coding, turn + threadIdx.x * Tiles::kItems, end);
    begun = Begun::Join{}(begun, mine.begun);
  }
  store_total(begun, Begun::Join{}, totals);
}

template <class Entries, class Groups>
__global__ void __launch_bounds__(kTileThreads, 2) write_groups_kernel(UniqueArgs args,
                                                                       KeyCoding coding,
                                                                       Entries entries,
                                                                       Groups groups,
                                                                       Tiles tiles,
                                                                       Begun const* totals) {
  auto const existing = existing_ids(args);
  auto const before = total_before(totals, Begun{0, 0}, Begun::Join{});
  write_groups(args, entries, coding, groups, tiles.begin(), tiles.end(existing), existing, before);
}

// Numbers by first occurrence: the places where an id stands first are counted and numbered, then
// every place looks up the number.

__device__ unsigned firsts_at(std::int32_t const* first_places,
                              std::int64_t begin,
                              std::int64_t end) {
  unsigned firsts = 0;
#pragma unroll
  for (int i = 0; i < Tiles::kItems; ++i) {
    firsts += begin + i < end && first_places[begin + i] == begin + i ? 1U : 0U;
  }
  return firsts;
}

__global__ void __launch_bounds__(kTileThreads)
    count_firsts_kernel(UniqueArgs args, UniqueWorkspace workspace, Tiles tiles) {
  auto const end = tiles.end(existing_ids(args));
  unsigned firsts = 0;
  for (auto turn = tiles.begin(); turn < end; turn += Tiles::kTurn) {
    firsts += firsts_at(workspace.first_places, turn + threadIdx.x * Tiles::kItems, end);
  }
  store_total(Begun{firsts, 0}, Begun::Join{}, workspace.totals);
}

__global__ void __launch_bounds__(kTileThreads)
    number_firsts_kernel(UniqueArgs args, UniqueWorkspace workspace, Tiles tiles) {
  using Scan = cub::BlockScan<unsigned, kTileThreads>;
  __shared__ typename Scan::TempStorage shared;
  auto const end = tiles.end(existing_ids(args));
  auto before = total_before(workspace.totals, Begun{0, 0}, Begun::Join{}).groups;
  for (auto turn = tiles.begin(); turn < end; turn += Tiles::kTurn) {
    auto const begin = turn + threadIdx.x * Tiles::kItems;
    unsigned number = 0;
    unsigned of_turn = 0;
    Scan(shared).ExclusiveSum(firsts_at(workspace.first_places, begin, end), number, of_turn);
    number += before;
    for (int i = 0; i < Tiles::kItems; ++i) {
      auto const place = begin + i;
      if (place < end && workspace.first_places[place] == place) {
        store_value(args, number, args.ids.at(place));
        args.counts[number] = workspace.group_counts[place];
        workspace.numbers[place] = number++;
      }
    }
    before += of_turn;
    __syncthreads();  // the scan's memory is used again
  }
}

__global__ void __launch_bounds__(kUniqueThreads)
    look_up_numbers_kernel(UniqueArgs args, UniqueWorkspace workspace) {
  auto const place = grid_thread();
  if (place < existing_ids(args)) {
    auto const first = workspace.first_places[place];
    args.inverse[place] = first < 0 ? -1 : std::int64_t{workspace.numbers[first]};
  }
}

template <class Entries, class Groups>
void number_groups(CudaStream stream,
                   UniqueArgs const& args,
                   KeyCoding const& coding,
                   Entries const& entries,
                   Groups const& groups,
                   Tiles const& tiles,
                   Begun* totals) {
  auto const blocks = static_cast<unsigned>(tiles.count);
  if (blocks > 1) {
    count_groups_kernel<<<blocks, kTileThreads, 0, stream>>>(args, coding, entries, tiles, totals);
    check_launch("unique, counts");
  }
  write_groups_kernel<<<blocks, kTileThreads, 0, stream>>>(
      args, coding, entries, groups, tiles, totals);
  check_launch("unique, groups");
}

void number_by_occurrence(CudaStream stream,
                          UniqueArgs const& args,
                          UniqueWorkspace const& workspace,
                          Tiles const& tiles) {
  auto const blocks = static_cast<unsigned>(tiles.count);
  if (blocks > 1) {
    count_firsts_kernel<<<blocks, kTileThreads, 0, stream>>>(args, workspace, tiles);
    check_launch("unique, counts of first places");
  }
  number_firsts_kernel<<<blocks, kTileThreads, 0, stream>>>(args, workspace, tiles);
  check_launch("unique, numbers");
  if (args.problem.capacity > 0) {
    look_up_numbers_kernel<<<grid_for(args.problem.capacity, kUniqueThreads),
                             kUniqueThreads,
                             0,
                             stream>>>(args, workspace);
    check_launch("unique, inverse");
  }
}

template <class Entries>
void launch(CudaStream stream,
            UniqueArgs const& args,
            KeyCoding const& coding,
            Entries const& entries,
            UniqueWorkspace const& workspace,
            Tiles const& tiles) {
  if (args.problem.order == UniqueOrder::ascending) {
    number_groups(stream, args, coding, entries, AscendingGroups{}, tiles, workspace.totals);
  } else {
    OccurringGroups const groups{workspace.first_places, workspace.group_counts};
    number_groups(stream, args, coding, entries, groups, tiles, workspace.totals);
    number_by_occurrence(stream, args, workspace, tiles);
  }
}

}  // namespace

std::size_t unique_workspace_bytes(CudaStream, UniqueProblem const& problem) {
  return UniqueWorkspace(nullptr, problem).bytes;
}

void unique(CudaStream stream, UniqueArgs const& args) {
  auto const capacity = args.problem.capacity;
  require(capacity <= std::numeric_limits<std::int32_t>::max(),
          "unique: a capacity of ",
          capacity,
          " ids is not below 2^31");
  KeyCoding const coding(args.problem);
  UniqueWorkspace workspace(args.workspace, args.problem);
  bool const is_small = capacity <= kUniqueBlockCapacity;
  auto const tiles = is_small ? Tiles::one(capacity) : Tiles(capacity);
  auto const sort = [&](auto is_packed) {
    if (is_small) {
      sort_by_block<is_packed.value>(stream, args, coding, workspace);
    } else {
      sort_by_device<is_packed.value>(stream, args, coding, workspace);
    }
  };
  if (coding.is_packed()) {
    sort(std::true_type{});
    launch(stream, args, coding, PackedEntries{workspace.keys[0]}, workspace, tiles);
  } else {
    sort(std::false_type{});
    PairedEntries const entries{workspace.keys[0], workspace.positions[0]};
    launch(stream, args, coding, entries, workspace, tiles);
  }
}

}  // namespace msstream::ops::kernels
