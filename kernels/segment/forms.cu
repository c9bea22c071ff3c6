// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "segment/forms.hpp"
#include "segment/math.hpp"

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

/// Computes the keys by which positions are sorted: the segment of each position. The key of a
/// position in no segment is `segments`, so that it comes last.
__global__ void segment_keys_kernel(SegmentLayout layout,
                                    std::uint32_t* keys,
                                    std::uint32_t* positions) {
  auto const place = grid_thread();
  if (place < layout.capacity) {
    auto const segment = segment_of_place(layout, existing_places(layout), place);
    keys[place] = static_cast<std::uint32_t>(segment >= 0 ? segment : layout.segments);
    positions[place] = static_cast<std::uint32_t>(place);
  }
}

}  // namespace

PlaceSortMemory::PlaceSortMemory(WorkspaceLayout& workspace, std::int64_t capacity)
    // The size is an estimate of what CUB's sort requires: a KiB of look-back state per tile, whose
    // tiles hold 1,000 positions and more, and a few histograms. If it were too small, the sort
    // would refuse it with an error. CUB is not asked for the size, because it would query the
    // device.
    : temporary_bytes(static_cast<std::size_t>(capacity) + (std::size_t{1} << 18U)) {
  for (int i = 0; i < 2; ++i) {
    keys[i] = workspace.take<std::uint32_t>(capacity);
    positions[i] = workspace.take<std::uint32_t>(capacity);
  }
  temporary = workspace.take_bytes(temporary_bytes);
}

SortedPlaces sort_places(CudaStream stream,
                         SegmentLayout const& layout,
                         PlaceSortMemory const& memory) {
  require_int32("unsorted segments", layout.capacity, "ids");
  require_int32("unsorted segments", layout.segments, "segments");
  cub::DoubleBuffer<std::uint32_t> keys(memory.keys[0], memory.keys[1]);
  cub::DoubleBuffer<std::uint32_t> positions(memory.positions[0], memory.positions[1]);
  if (layout.capacity > 0) {
    segment_keys_kernel<<<grid_for(layout.capacity, kThreads), kThreads, 0, stream>>>(
        layout, keys.Current(), positions.Current());
    check_launch("unsorted segments, keys");
    auto const key_bits = std::bit_width(static_cast<std::uint64_t>(layout.segments));
    auto temporary_bytes = memory.temporary_bytes;
    check_cuda(cub::DeviceRadixSort::SortPairs(memory.temporary,
                                               temporary_bytes,
                                               keys,
                                               positions,
                                               static_cast<int>(layout.capacity),
                                               0,
                                               std::max(1, static_cast<int>(key_bits)),
                                               stream),
               "cub::DeviceRadixSort::SortPairs");
  }
  return {{.form = SegmentForm::sorted_ids,
           .segments = layout.segments,
           .capacity = layout.capacity,
           .indices = keys.Current(),
           .id_type = DType::int32},
          reinterpret_cast<std::int32_t const*>(positions.Current())};
}

SpansOfLayout::SpansOfLayout(WorkspaceLayout& workspace, SegmentLayout const& layout)
    : layout_(layout) {
  if (layout.form != SegmentForm::offsets) {
    offsets_ = workspace.take<std::int64_t>(layout.segments + 1);
  }
  if (layout.form == SegmentForm::unsorted_ids) {
    sort_.emplace(workspace, layout.capacity);
  }
}

Spans SpansOfLayout::make(CudaStream stream) const {
  switch (layout_.form) {
    case SegmentForm::offsets:
      return {static_cast<std::int64_t const*>(layout_.indices), nullptr, true};
    case SegmentForm::sorted_ids:
      segment_offsets(stream, {layout_, offsets_});
      return {offsets_, nullptr, false};
    case SegmentForm::unsorted_ids:
      break;
  }
  auto const sorted = sort_places(stream, layout_, *sort_);
  segment_offsets(stream, {sorted.layout, offsets_});
  return {offsets_, sorted.positions, false};
}

}  // namespace msstream::ops::kernels
