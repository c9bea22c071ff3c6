// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "embedding/pooled_ahead.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kAheadThreads = 256;
constexpr int kLanesOfAheadBag = 8;  ///< threads that look at the ids of one bag
constexpr int kPackedRows = 4;       ///< bags whose rows a group of lanes has in flight
constexpr std::int64_t kMostAheadBlocks = 4096;
constexpr std::int64_t kMostBlocksOfAheadSlot = 1024;
constexpr std::int64_t kMostAheadSlots = 32768;

[[nodiscard]] unsigned ahead_grid(std::int64_t items, int threads_of_item) {
  return static_cast<unsigned>(
      std::min(kMostAheadBlocks, ceil_div<std::int64_t>(items * threads_of_item, kAheadThreads)));
}
/// Returns a grid with a row of blocks for each slot, which has up to `items`.
[[nodiscard]] dim3 grid_of_ahead_slots(std::int64_t slots, std::int64_t items) {
  auto const blocks = ceil_div<std::int64_t>(items, kAheadThreads);
  return {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocksOfAheadSlot)),
          static_cast<unsigned>(std::min(slots, kMostAheadSlots))};
}

__global__ void __launch_bounds__(kAheadThreads)
    marked_rows_kernel(__grid_constant__ MarkedRowsArgs const args) {
  for (std::int64_t s = blockIdx.y; s < args.bags.slots; s += gridDim.y) {
    auto const places = args.bags.places_in(s);
    for (auto place = places.begin + grid_thread(); place < places.end; place += grid_stride()) {
      auto const row = args.bags.row_of(s, args.bags.ids[place]);
      if (row < 0) {
        continue;
      }
      auto* const mark = args.marks + row / kRowsOfMark;
      auto const bit = 1U << static_cast<unsigned>(row % kRowsOfMark);
      // Bags that name a frequent row need not wait for each other's atomic operations.
      if ((*static_cast<std::uint32_t volatile*>(mark) & bit) == 0) {
        atomicOr(mark, bit);
      }
    }
  }
}

__global__ void __launch_bounds__(kAheadThreads)
    split_bags_kernel(__grid_constant__ SplitBagsArgs const args) {
  auto const lane = static_cast<int>(threadIdx.x) % kLanesOfAheadBag;
  auto const first_lane = static_cast<int>(threadIdx.x) % 32 - lane;
  auto const lanes = ((1U << kLanesOfAheadBag) - 1U) << first_lane;
  for (auto bag = grid_thread() / kLanesOfAheadBag; bag < args.bags.bags();
       bag += grid_stride() / kLanesOfAheadBag) {
    auto const slot = args.bags.slot_of(bag);
    auto const places = args.bags.places_of(bag);
    SplitBagsArgs::Bag found;
    for (auto place = places.begin + lane; place < places.end; place += kLanesOfAheadBag) {
      args.look_at(slot, place, found);
    }
    found.has_row = __any_sync(lanes, found.has_row) != 0;
    found.is_late = __any_sync(lanes, found.is_late) != 0;
    for (auto place = places.begin + lane; place < places.end; place += kLanesOfAheadBag) {
      args.write_id(place, found);
    }
    if (lane == 0) {
      args.write_counts(bag, found);
    }
  }
}

/// Returns log2 of the number of lanes that copy a row, four columns each if the row can have whole
/// Quads.
__host__ __device__ int log2_lanes_of_row(std::int64_t columns) {
  auto const accesses = columns % 4 == 0 ? columns / 4 : columns;
  int log2_lanes = 0;
  while (log2_lanes < 5 && (std::int64_t{1} << log2_lanes) < accesses) {
    ++log2_lanes;
  }
  return log2_lanes;
}

/// Copies accesses [lane, count) of each row, every `lanes`-th.
template <class Access>
__device__ void copy_accesses(PackedBagsArgs::Row const (&rows)[kPackedRows],
                              int count,
                              int lane,
                              int lanes) {
  for (int at = lane; at < count; at += lanes) {
    Access held[kPackedRows] = {};
#pragma unroll
    for (int r = 0; r < kPackedRows; ++r) {
      if (rows[r].to != nullptr) {
        held[r] = reinterpret_cast<Access const*>(rows[r].from)[at];
      }
    }
#pragma unroll
    for (int r = 0; r < kPackedRows; ++r) {
      if (rows[r].to != nullptr) {
        reinterpret_cast<Access*>(rows[r].to)[at] = held[r];
      }
    }
  }
}

/// Copies the rows of up to kPackedRows bags of all ranks, from `first` on and `step` apart, by the
/// lanes of a group.
__device__ void copy_packed_rows(PackedBagsArgs const& args,
                                 std::int64_t slot,
                                 int columns,
                                 std::int64_t first,
                                 std::int64_t step,
                                 int lane,
                                 int lanes) {
  auto const bags = args.ranks * args.most_bags;
  RowPlace places[kPackedRows];
#pragma unroll
  for (int r = 0; r < kPackedRows; ++r) {
    if (auto const bag = first + r * step; bag < bags) {
      auto const rank = bag / args.most_bags;
      places[r] = args.place_of(rank, (slot - rank) * args.most_bags + bag);
    }
  }
  PackedBagsArgs::Row rows[kPackedRows] = {};
  std::uintptr_t addresses = 0;
#pragma unroll
  for (int r = 0; r < kPackedRows; ++r) {
    if (auto const bag = first + r * step; bag < bags) {
      auto const rank = bag / args.most_bags;
      if (lane == 0) {
        args.write_place(rank, (slot - rank) * args.most_bags + bag, places[r]);
      }
      rows[r] = args.row_of(rank, slot, bag - rank * args.most_bags, places[r]);
      addresses |= reinterpret_cast<std::uintptr_t>(rows[r].from) |
                   reinterpret_cast<std::uintptr_t>(rows[r].to);
    }
  }
  if (columns % 4 == 0 && addresses % alignof(float4) == 0) {
    copy_accesses<float4>(rows, columns / 4, lane, lanes);
  } else {
    copy_accesses<float>(rows, columns, lane, lanes);
  }
}

__global__ void __launch_bounds__(kAheadThreads, 4)
    packed_bags_kernel(__grid_constant__ PackedBagsArgs const args) {
  if (blockIdx.y == 0) {
    for (auto rank = grid_thread(); rank < args.ranks; rank += grid_stride()) {
      args.write_count(rank);
    }
  }
  for (std::int64_t s = blockIdx.y; s < args.slots; s += gridDim.y) {
    auto const columns = args.blocks[s].width;
    int const log2_lanes = log2_lanes_of_row(columns);
    int const lanes = 1 << log2_lanes;
    int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    int const groups = kAheadThreads >> log2_lanes;
    auto const bags = args.ranks * args.most_bags;
    auto const step = std::int64_t{gridDim.x} * groups;
    for (auto bag = std::int64_t{blockIdx.x} * groups + (threadIdx.x >> log2_lanes); bag < bags;
         bag += step * kPackedRows) {
      copy_packed_rows(args, s, columns, bag, step, lane, lanes);
    }
  }
}

__global__ void __launch_bounds__(kAheadThreads)
    joined_argmax_kernel(__grid_constant__ JoinedArgmaxArgs const args) {
  for (auto i = grid_thread(); i < args.count; i += grid_stride()) {
    args.late[i] = max(args.late[i], args.early[i]);
  }
}

}  // namespace

void marked_rows(CudaStream stream, MarkedRowsArgs const& args) {
  if (args.bags.slots > 0) {
    auto const grid = grid_of_ahead_slots(args.bags.slots, args.bags.capacity / args.bags.slots);
    marked_rows_kernel<<<grid, kAheadThreads, 0, stream.handle>>>(args);
    check_launch("marked_rows");
  }
}

void split_bags(CudaStream stream, SplitBagsArgs const& args) {
  if (auto const bags = args.bags.bags(); bags > 0) {
    split_bags_kernel<<<ahead_grid(bags, kLanesOfAheadBag), kAheadThreads, 0, stream.handle>>>(
        args);
    check_launch("split_bags");
  }
}

void packed_bags(CudaStream stream, PackedBagsArgs const& args) {
  if (args.slots > 0) {
    auto const bags = std::max<std::int64_t>(args.ranks * args.most_bags, 1);
    int const log2_lanes = log2_lanes_of_row(args.most_elements / bags);
    auto const threads = ceil_div<std::int64_t>(bags << log2_lanes, kPackedRows);
    packed_bags_kernel<<<grid_of_ahead_slots(args.slots, threads),
                         kAheadThreads,
                         0,
                         stream.handle>>>(args);
    check_launch("packed_bags");
  }
}

void joined_argmax(CudaStream stream, JoinedArgmaxArgs const& args) {
  if (args.count > 0) {
    joined_argmax_kernel<<<ahead_grid(args.count, 1), kAheadThreads, 0, stream.handle>>>(args);
    check_launch("joined_argmax");
  }
}

}  // namespace msstream::ops::kernels
