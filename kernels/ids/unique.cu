// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "ids/unique_groups.cuh"
#include "ids/unique_sort.cuh"

#include <cub/block/block_scan.cuh>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kLookUpThreads = 256;
constexpr int kWidenedAThread = 8;

template <class Sorted, class Groups>
__global__ void __launch_bounds__(kTileThreads) count_groups_kernel(
    UniqueArgs args, KeyCoding coding, Sorted sorted, Groups groups, Tiles tiles, Begun* totals) {
  auto const end = static_cast<unsigned>(tiles.end(existing_ids(args)));
  auto const reader = sorted.reader();
  Begun begun{0, 0};
  for (auto turn = static_cast<unsigned>(tiles.begin()); turn < end; turn += Tiles::kTurn) {
    WarpKeys const keys(reader, coding, turn, end);
    begun = Begun::Join{}(begun, keys.begun());
    // Fills whole sectors of the output, so that they are in the L2 cache when a later kernel
    // writes them at random: each random write would otherwise fetch its sector first.
#pragma unroll
    for (unsigned i = 0; i < Tiles::kItems; ++i) {
      auto const k = turn + i * kTileThreads + threadIdx.x;
      if (k < end) {
        groups.left_out(k);
      }
    }
  }
  // All lanes of a warp have counted the same groups, so only one of the lanes adds its count.
  store_total(threadIdx.x % 32 == 0 ? begun : Begun{0, 0}, Begun::Join{}, totals);
}

template <class Sorted, class Groups>
__global__ void __launch_bounds__(kTileThreads, 3) write_groups_kernel(UniqueArgs args,
                                                                       KeyCoding coding,
                                                                       Sorted sorted,
                                                                       Groups groups,
                                                                       Tiles tiles,
                                                                       Begun const* totals) {
  auto const existing = existing_ids(args);
  auto const before = total_before(totals, Begun{0, 0}, Begun::Join{});
  write_groups(args,
               sorted.reader(),
               coding,
               groups,
               static_cast<unsigned>(tiles.begin()),
               static_cast<unsigned>(tiles.end(existing)),
               static_cast<unsigned>(existing),
               before);
}

__global__ void __launch_bounds__(kLookUpThreads)
    widen_numbers_kernel(UniqueArgs args, std::int32_t const* numbers) {
  auto const existing = existing_ids(args);
  auto const begin = std::int64_t{blockIdx.x} * kLookUpThreads * kWidenedAThread + threadIdx.x;
  std::int32_t own[kWidenedAThread];
#pragma unroll
  for (int i = 0; i < kWidenedAThread; ++i) {
    auto const place = begin + i * kLookUpThreads;
    own[i] = place < existing ? __ldcs(numbers + place) : 0;
  }
#pragma unroll
  for (int i = 0; i < kWidenedAThread; ++i) {
    auto const place = begin + i * kLookUpThreads;
    if (place < existing) {
      __stcs(args.inverse + place, std::int64_t{own[i]});
    }
  }
}

// To number ids by first occurrence, a kernel numbers the positions where an id occurs first, and
// then every position looks up its id's number.

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
        workspace.numbers[place] = static_cast<std::int32_t>(number++);
      }
    }
    before += of_turn;
    __syncthreads();  // the next round reuses the scan's shared memory
  }
}

__global__ void __launch_bounds__(kLookUpThreads)
    look_up_numbers_kernel(UniqueArgs args, UniqueWorkspace workspace) {
  auto const place = grid_thread();
  if (place < existing_ids(args)) {
    auto const first = workspace.first_places[place];
    args.inverse[place] = first < 0 ? -1 : std::int64_t{workspace.numbers[first]};
  }
}

template <class Sorted, class Groups>
void number_groups(CudaStream stream,
                   UniqueArgs const& args,
                   KeyCoding const& coding,
                   Sorted const& sorted,
                   Groups const& groups,
                   Tiles const& tiles,
                   Begun* totals) {
  auto const blocks = static_cast<unsigned>(tiles.count);
  if (blocks > 1) {
    count_groups_kernel<<<blocks, kTileThreads, 0, stream>>>(
        args, coding, sorted, groups, tiles, totals);
    check_launch("unique, counts");
  }
  write_groups_kernel<<<blocks, kTileThreads, 0, stream>>>(
      args, coding, sorted, groups, tiles, totals);
  check_launch("unique, groups");
}

void widen_numbers(CudaStream stream, UniqueArgs const& args, std::int32_t const* numbers) {
  auto const blocks = grid_for(args.problem.capacity, kLookUpThreads * kWidenedAThread);
  widen_numbers_kernel<<<blocks, kLookUpThreads, 0, stream>>>(args, numbers);
  check_launch("unique, inverse");
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
    look_up_numbers_kernel<<<grid_for(args.problem.capacity, kLookUpThreads),
                             kLookUpThreads,
                             0,
                             stream>>>(args, workspace);
    check_launch("unique, inverse");
  }
}

template <class Sorted>
void launch(CudaStream stream,
            UniqueArgs const& args,
            KeyCoding const& coding,
            Sorted const& sorted,
            UniqueWorkspace const& workspace,
            Tiles const& tiles) {
  if (args.problem.order == UniqueOrder::ascending) {
    if (args.problem.capacity > kMostForWideInverse) {
      AscendingGroups<std::int32_t> const groups{workspace.numbers};
      number_groups(stream, args, coding, sorted, groups, tiles, workspace.totals);
      widen_numbers(stream, args, workspace.numbers);
    } else {
      AscendingGroups<std::int64_t> const groups{args.inverse};
      number_groups(stream, args, coding, sorted, groups, tiles, workspace.totals);
    }
  } else {
    OccurringGroups const groups{workspace.first_places, workspace.group_counts};
    number_groups(stream, args, coding, sorted, groups, tiles, workspace.totals);
    number_by_occurrence(stream, args, workspace, tiles);
  }
}

}  // namespace

std::size_t unique_workspace_bytes(CudaStream, UniqueProblem const& problem) {
  return UniqueWorkspace(nullptr, problem).bytes;
}

void unique(CudaStream stream, UniqueArgs const& args) {
  auto const capacity = args.problem.capacity;
  require_int32("unique", capacity, "ids at most");
  KeyCoding const coding(args.problem);
  UniqueWorkspace const workspace(args.workspace, args.problem);
  auto const group = [&](auto const& sorted, Tiles const& tiles) {
    launch(stream, args, coding, sorted, workspace, tiles);
  };
  if (capacity <= kUniqueBlockCapacity) {
    auto const tiles = Tiles::one(capacity);
    coding.is_short() ? group(sort_by_block<std::uint32_t>(stream, args, coding, workspace), tiles)
                      : group(sort_by_block<std::uint64_t>(stream, args, coding, workspace), tiles);
    return;
  }
  check_cuda(cudaMemsetAsync(workspace.met, 0, workspace.zero_bytes, stream), "cudaMemsetAsync");
  Tiles const tiles(capacity);
  coding.is_short() ? group(sort_short_keys(stream, args, coding, workspace), tiles)
                    : group(sort_long_keys(stream, args, coding, workspace), tiles);
}

}  // namespace msstream::ops::kernels
