// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "embedding/pooled_ahead.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kAheadThreads = 256;
constexpr int kLanesOfAheadBag = 8;  ///< threads that look at the ids of one bag
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

__global__ void __launch_bounds__(kAheadThreads)
    packed_bags_kernel(__grid_constant__ PackedBagsArgs const args) {
  if (blockIdx.y == 0) {
    for (auto rank = grid_thread(); rank < args.ranks; rank += grid_stride()) {
      args.write_count(rank);
    }
  }
  for (std::int64_t s = blockIdx.y; s < args.slots; s += gridDim.y) {
    std::int64_t const columns = args.blocks[s].width;
    auto const elements = args.ranks * args.most_bags * columns;
    for (auto e = grid_thread(); e < elements; e += grid_stride()) {
      auto const bag = e / columns;
      auto const row = args.row_of(bag / args.most_bags, s, bag % args.most_bags);
      if (row.to != nullptr) {
        row.to[e % columns] = row.from[e % columns];
      }
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
    packed_bags_kernel<<<grid_of_ahead_slots(args.slots, args.most_elements),
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
