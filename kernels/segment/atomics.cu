// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "segment/atomics.hpp"
#include "segment/columns.cuh"
#include "segment/tuning.hpp"

#include <cub/block/block_scan.cuh>

#include <bit>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

// Sums of segments with atomic additions. A block takes neighbouring positions and groups them by
// segment, by a counting sort over the slots of a small hash table. Then its groups of lanes share
// the positions: each group adds in registers as long as the segment is the same, and atomically
// where it changes. A hot segment therefore costs a block only one or two atomic additions, and
// does not make all blocks wait for each other.

constexpr int kFree = -1;
constexpr int kInFlight = 8;

template <int IdsOfThread>
struct Tile {
  static constexpr int kPlaces = kAtomicThreads * IdsOfThread;
  static constexpr int kSlotBits = std::bit_width(static_cast<unsigned>(kPlaces));
  static constexpr int kSlots = 1 << kSlotBits;
  static constexpr int kSlotsOfThread = kSlots / kAtomicThreads;
  static_assert(kSlots == 2 * kPlaces);

  /// Returns the slot of an id by a multiplicative hash (Knuth, The Art of Computer Programming,
  /// vol. 3, 6.4).
  static __device__ int slot_of(int id) {
    return static_cast<int>((static_cast<unsigned>(id) * 2654435769U) >> (32 - kSlotBits));
  }
};

/// The positions of a tile, grouped by segment.
template <int Places>
struct GroupedTile {
  int segments[Places];
  unsigned short places[Places];  ///< positions within the tile
  int count;
};

template <int Slots>
struct HashTable {
  int ids[Slots];
  int counts[Slots];  ///< first the count of each id, later the index where its positions begin
};

template <int IdsOfThread>
struct TileMemory {
  HashTable<Tile<IdsOfThread>::kSlots> table;
  GroupedTile<Tile<IdsOfThread>::kPlaces> grouped;
  typename cub::BlockScan<int, kAtomicThreads>::TempStorage scan;
};

template <int IdsOfThread>
__device__ void group_tile(SegmentLayout const& layout,
                           std::int64_t tile,
                           TileMemory<IdsOfThread>& memory) {
  constexpr int kSlots = Tile<IdsOfThread>::kSlots;
  constexpr int kSlotsOfThread = Tile<IdsOfThread>::kSlotsOfThread;
  int const thread = static_cast<int>(threadIdx.x);
  auto& table = memory.table;
  for (int slot = thread; slot < kSlots; slot += kAtomicThreads) {
    table.ids[slot] = kFree;
    table.counts[slot] = 0;
  }
  auto const existing = existing_places(layout);
  int ids[IdsOfThread];
  int slots[IdsOfThread];
  int ranks[IdsOfThread];
#pragma unroll
  for (int i = 0; i < IdsOfThread; ++i) {
    ids[i] =
        static_cast<int>(segment_of_place(layout, existing, tile + i * kAtomicThreads + thread));
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < IdsOfThread; ++i) {
    if (ids[i] >= 0) {
      int slot = Tile<IdsOfThread>::slot_of(ids[i]);
      for (;;) {
        int const found = atomicCAS(&table.ids[slot], kFree, ids[i]);
        if (found == kFree || found == ids[i]) {
          break;
        }
        slot = (slot + 1) % kSlots;
      }
      slots[i] = slot;
      ranks[i] = atomicAdd(&table.counts[slot], 1);
    }
  }
  __syncthreads();
  int counts[kSlotsOfThread];
#pragma unroll
  for (int i = 0; i < kSlotsOfThread; ++i) {
    counts[i] = table.counts[i * kAtomicThreads + thread];
  }
  int total = 0;
  cub::BlockScan<int, kAtomicThreads>(memory.scan).ExclusiveSum(counts, counts, total);
#pragma unroll
  for (int i = 0; i < kSlotsOfThread; ++i) {
    table.counts[i * kAtomicThreads + thread] = counts[i];
  }
  if (thread == 0) {
    memory.grouped.count = total;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < IdsOfThread; ++i) {
    if (ids[i] >= 0) {
      int const at = table.counts[slots[i]] + ranks[i];
      memory.grouped.segments[at] = ids[i];
      memory.grouped.places[at] = static_cast<unsigned short>(i * kAtomicThreads + thread);
    }
  }
  __syncthreads();
}

template <int Count>
__device__ void add_to(float* to, Columns<Count> const& sum) {
#if __CUDA_ARCH__ >= 900
  constexpr bool kHasVectors = Count == 4;
#else
  constexpr bool kHasVectors = false;
#endif
  if constexpr (kHasVectors) {
    atomicAdd(reinterpret_cast<float4*>(to),
              make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]));
  } else {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      atomicAdd(to + c, sum.at[c]);
    }
  }
}

template <int IdsOfThread, int Count>
__global__ void __launch_bounds__(kAtomicThreads, kAtomicBlocks)
    atomic_sums_kernel(SegmentArgs args, RowLanes shape, std::uint32_t* segment_counts) {
  __shared__ TileMemory<IdsOfThread> memory;
  auto const tile = std::int64_t{blockIdx.x} * Tile<IdsOfThread>::kPlaces;
  group_tile(args.layout, tile, memory);
  auto const& grouped = memory.grouped;

  int const groups = kAtomicThreads >> shape.log2_lanes;
  int const group = static_cast<int>(threadIdx.x) >> shape.log2_lanes;
  int const share = ceil_div(grouped.count, groups);
  int const begin = min(group * share, grouped.count);
  int const end = min(begin + share, grouped.count);
  if (begin >= end) {
    return;
  }
  auto const width = static_cast<int>(shape.width);
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    auto const* const columns = args.values + tile * shape.width + column;
    Columns<Count> sum;
    int first = begin;  // first position of the current segment
    auto const add = [&](int last) {
      auto const segment = std::int64_t{grouped.segments[first]};
      add_to(args.output + segment * shape.width + column, sum);
      if (segment_counts != nullptr && column == 0) {
        atomicAdd(segment_counts + segment, static_cast<unsigned>(last - first));
      }
    };
    for (int from = begin; from < end; from += kInFlight) {
      Columns<Count> rows[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (from + k < end) {
          rows[k] = load_once<Count>(columns + std::int64_t{grouped.places[from + k]} * width);
        }
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (from + k < end) {
          if (grouped.segments[from + k] != grouped.segments[first]) {
            add(from + k);
            first = from + k;
            sum = Columns<Count>{};
          }
          sum.add(rows[k]);
        }
      }
    }
    add(end);
  }
}

/// Completes the sum of each segment with a group of lanes: divides the sum if the reduction
/// requires it, or writes the fill value if the segment is empty.
template <int Count>
__global__ void finish_sums_kernel(SegmentOutput output,
                                   std::int64_t segments,
                                   RowLanes shape,
                                   std::uint32_t const* counts) {
  auto const segment = grid_thread() >> shape.log2_lanes;
  if (segment >= segments) {
    return;
  }
  auto const count = counts[segment];
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    if (count == 0) {
      output.write_empty<Count>(segment, column);
    } else {
      auto const sum = load_written<Count>(output.rows + segment * shape.width + column);
      output.write(segment, column, sum, count);
    }
  }
}

template <int Count>
void launch(CudaStream stream, SegmentArgs const& args, std::uint32_t* counts) {
  RowLanes const shape(args.width, Count);
  auto const add = [&](auto ids_of_thread) {
    constexpr int kIds = ids_of_thread.value;
    atomic_sums_kernel<kIds, Count>
        <<<grid_for(args.layout.capacity, Tile<kIds>::kPlaces), kAtomicThreads, 0, stream>>>(
            args, shape, counts);
    check_launch("unsorted segments, atomic sums");
  };
  if (args.layout.capacity > kMostForSmallAtomicTiles) {
    add(std::integral_constant<int, kAtomicIdsOfThread>{});
  } else if (args.layout.capacity > 0) {
    add(std::integral_constant<int, kFewAtomicIdsOfThread>{});
  }
  if (counts != nullptr) {
    finish_sums_kernel<Count>
        <<<grid_for(args.layout.segments, kAtomicThreads / shape.lanes()),
           kAtomicThreads,
           0,
           stream>>>({args.output, args.width, args.reduction, args.empty_value},
                     args.layout.segments,
                     shape,
                     counts);
    check_launch("unsorted segments, means");
  }
}

void zero(CudaStream stream, void* memory, std::int64_t elements) {
  check_cuda(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(elements) * 4, stream),
             "cudaMemsetAsync");
}

/// Counts the positions in each segment. Of the lanes of a warp with equal ids, one adds the count
/// of all.
__global__ void count_places_kernel(SegmentLayout layout, std::uint32_t* counts) {
  auto const place = grid_thread();
  auto const segment = segment_of_place(layout, existing_places(layout), place);
  auto const same = __match_any_sync(0xFFFFFFFFU, segment);
  if (segment >= 0 && __ffs(static_cast<int>(same)) - 1 == static_cast<int>(threadIdx.x % 32)) {
    atomicAdd(counts + segment, static_cast<unsigned>(__popc(same)));
  }
}

}  // namespace

AtomicSumMemory::AtomicSumMemory(WorkspaceLayout& workspace, SegmentArgs const& args) {
  if (divides(args.reduction)) {
    counts = workspace.take<std::uint32_t>(args.layout.segments);
  }
}

void add_atomically(CudaStream stream, SegmentArgs const& args, AtomicSumMemory const& memory) {
  require_int32("unsorted segments", args.layout.segments, "segments");
  zero(stream, args.output, args.layout.segments * args.width);
  if (memory.counts != nullptr) {
    zero(stream, memory.counts, args.layout.segments);
  }
  if (allows_vectors(args.values, args.width, 4) && allows_stores(args.output, args.width, 4)) {
    launch<4>(stream, args, memory.counts);
  } else {
    launch<1>(stream, args, memory.counts);
  }
}

void count_places(CudaStream stream, SegmentLayout const& layout, std::uint32_t* counts) {
  zero(stream, counts, layout.segments);
  if (layout.capacity > 0) {
    count_places_kernel<<<grid_for(layout.capacity, kAtomicThreads), kAtomicThreads, 0, stream>>>(
        layout, counts);
    check_launch("unsorted segments, counts");
  }
}

}  // namespace msstream::ops::kernels
