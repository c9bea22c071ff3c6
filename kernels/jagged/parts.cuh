// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/lane_group.cuh"
#include "common/launch.cuh"
#include "common/workspace_layout.hpp"
#include "ids/bag_offsets.cuh"
#include "ids/bag_offsets.hpp"
#include "jagged/part_rows.hpp"
#include "jagged/teams.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

// A segment of n >= P = part_rows() rows is long: n / P (rounded down) parts of equal length share
// it, so that many blocks process it at the same time. With b as the segment's first row, part k
// has slot b / P (rounded up) + k:
//
//   row        0       P       2P      3P      4P      5P
//   segments   |  [-------------------)[---------)  [--)
//   slots              1       2       3
//
// Row slot * P belongs to the segment. Therefore no two segments have the same slot, and a block
// finds the segment of a slot by a search for this row.

/// The slots of parts of long segments, and their partial results, which a second launch combines.
/// The sizes depend only on the capacity and the width.
struct LongParts {
  std::int64_t rows;    ///< the least rows of a part and of a long segment
  std::int64_t slots;   ///< 0 if the capacity is too small for a long segment
  std::int64_t slices;  ///< the slices of up to 32 columns, each of which is an item of its own
  std::int64_t blocks;  ///< the blocks that share the items
  PlaceRange* segments = nullptr;  ///< [slots], the rows of the part's segment, or none
  float* sums = nullptr;           ///< [slots, width]
  float* largest = nullptr;        ///< [slots, width], if there are maxima
  std::size_t bytes = 0;

  LongParts(void* memory, std::int64_t capacity, std::int64_t width, bool has_maxima)
      : rows(part_rows(capacity, width)),
        slots(capacity < rows ? 0 : ceil_div(capacity, rows)),
        slices(ceil_div<std::int64_t>(width, 32)),
        blocks(std::min(slots * slices, kTeamBlocks / 2)) {
    if (blocks == 0) {
      return;
    }
    WorkspaceLayout workspace(memory);
    segments = workspace.take<PlaceRange>(slots);
    sums = workspace.take<float>(slots * width);
    if (has_maxima) {
      largest = workspace.take<float>(slots * width);
    }
    bytes = workspace.bytes();
  }

  [[nodiscard]] __device__ std::int64_t items() const { return slots * slices; }
  /// Returns the slots of the parts of a segment.
  [[nodiscard]] __device__ PlaceRange slots_of(PlaceRange const& segment) const {
    auto const first = ceil_div(segment.begin, rows);
    return {first, first + (segment.end - segment.begin) / rows};
  }
};

/// A part of a long segment, of which a block processes one slice of the columns.
struct LongPart {
  std::int64_t slot;
  std::int64_t slice;
  PlaceRange slots;  ///< those of all parts of the segment
  PlaceRange rows;   ///< those of this part

  __device__ LongPart(LongParts const& parts, std::int64_t item, PlaceRange const& segment)
      : slot(item / parts.slices), slice(item % parts.slices), slots(parts.slots_of(segment)) {
    auto const length = segment.end - segment.begin;
    auto const count = slots.end - slots.begin;
    auto const part = slot - slots.begin;
    rows = {segment.begin + length * part / count, segment.begin + length * (part + 1) / count};
  }
};

/// Returns the rows of the long segment that has a part in a slot, or no rows. All lanes of a warp
/// must call long_segment_at() together, for the same slot.
__device__ inline PlaceRange long_segment_at(LaneGroup const& warp,
                                             BagOffsets<std::int64_t> const& offsets,
                                             LongParts const& parts,
                                             std::int64_t slot) {
  auto const row = slot * parts.rows;
  auto const bag = candidate_for(warp, offsets, row);
  auto const segment =
      places_by_lanes(offsets, bag, bag < offsets.bags, warp.lane, warp.lanes, IdReport{}, false);
  bool const has_part =
      row >= segment.begin && row < segment.end && slot < parts.slots_of(segment).end;
  return has_part ? segment : PlaceRange{0, 0};
}

/// Calls work(part) for each part of a long segment and each slice of columns that the block
/// processes. find(warp, slot, slice) returns the rows of the segment with a part in the slot, or
/// no rows; each warp of a block finds another one. Blocks [0, parts.blocks) must call
/// for_each_part() with all kTeamThreads threads.
template <class Find, class Work>
__device__ void for_each_part(LongParts const& parts, Find const& find, Work const& work) {
  constexpr int kWarps = kTeamThreads / 32;
  __shared__ PlaceRange found[kWarps];
  LaneGroup const warp(32);
  int const number = static_cast<int>(threadIdx.x) / 32;
  auto const items = parts.items();
  for (std::int64_t first = blockIdx.x; first < items; first += kWarps * parts.blocks) {
    auto const own = first + number * parts.blocks;
    PlaceRange own_segment{0, 0};
    if (own < items) {
      own_segment = find(warp, own / parts.slices, own % parts.slices);
    }
    __syncthreads();  // all threads have read the segments of the round before
    if (warp.lane == 0) {
      found[number] = own_segment;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < kWarps; ++i) {
      auto const segment = found[i];
      if (segment.begin < segment.end) {
        work(LongPart(parts, first + i * parts.blocks, segment));
      }
    }
  }
}

}  // namespace msstream::ops::kernels
