// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/workspace_layout.hpp"
#include "segment/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

/// The conversion of segments by ids into spans of positions, on CUDA.
namespace msstream::ops::kernels {

/// The workspace for sorting positions by their segment.
struct PlaceSortMemory {
  std::uint32_t* keys[2];
  std::uint32_t* positions[2];
  void* temporary;
  std::size_t temporary_bytes;

  PlaceSortMemory(WorkspaceLayout& workspace, std::int64_t capacity);
};

struct SortedPlaces {
  SegmentLayout layout;  ///< sorted int32 ids; positions in no segment come last
  std::int32_t const* positions;
};
/// Sorts the positions of unsorted ids by ascending segment. The positions of one segment keep
/// their order. Both `capacity` and `segments` must be below 2^31.
SortedPlaces sort_places(CudaStream stream,
                         SegmentLayout const& layout,
                         PlaceSortMemory const& memory);

/// Segments as spans: segment s has the positions [offsets[s], offsets[s + 1]), and position i is
/// row positions[i], or row i if `positions` is null.
struct Spans {
  std::int64_t const* offsets;
  std::int32_t const* positions;
  bool are_given;  ///< whether a caller gave the offsets, so that they may be invalid (BagOffsets)
};

/// The workspace and the launches that convert a layout of segments into spans of positions.
/// Segments by offsets need neither.
class SpansOfLayout {
 public:
  SpansOfLayout(WorkspaceLayout& workspace, SegmentLayout const& layout);
  [[nodiscard]] Spans make(CudaStream stream) const;

 private:
  SegmentLayout layout_;
  std::int64_t* offsets_ = nullptr;
  std::optional<PlaceSortMemory> sort_;
};

}  // namespace msstream::ops::kernels
