// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workspace_layout.hpp"

#include <msstream/ops/kernels/segment.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

/// How the other forms of segments become spans of places on CUDA.
namespace msstream::ops::kernels {

/// Memory for sorting places by their segment.
struct PlaceSortMemory {
  std::uint32_t* keys[2];
  std::uint32_t* positions[2];
  void* temporary;
  std::size_t temporary_bytes;

  PlaceSortMemory(WorkspaceLayout& workspace, std::int64_t capacity);
};

struct SortedPlaces {
  SegmentLayout layout;  ///< sorted ids: int32, places in no segment last
  std::int32_t const* positions;
};
/// The places of unsorted ids by ascending segment, those of one segment in their order. Both
/// `capacity` and `segments` are below 2^31.
SortedPlaces sort_places(CudaStream stream,
                         SegmentLayout const& layout,
                         PlaceSortMemory const& memory);

/// Segment s has the places [offsets[s], offsets[s + 1]); place i is row positions[i], or row i.
struct Spans {
  std::int64_t const* offsets;
  std::int32_t const* positions;
  bool are_given;  ///< the offsets are the caller's: some segments may be bad, as BagOffsets has it
};

/// What it takes to make spans of a layout: nothing of offsets.
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
