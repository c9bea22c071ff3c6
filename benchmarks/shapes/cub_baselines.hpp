// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cub_cache.hpp"

#include <cstdint>

struct CUstream_st;

/// Reductions of segments and distinct ids by CUB's algorithms, whose temporary memory comes from
/// CUB's caching allocator.
/// This header includes no CUDA header.
namespace benchmarks::shapes {

/// Segments of values: segment s has the values [offsets[s], offsets[s + 1]).
struct CubSegments {
  float const* values;
  std::int64_t const* offsets;  ///< [segments + 1]
  std::int64_t segments;
  float* reduced;  ///< [segments], written
};
void cub_sum(CubCache& cache, CubSegments const& segments, CUstream_st* stream);
void cub_max(CubCache& cache, CubSegments const& segments, CUstream_st* stream);

/// Ids with their positions, sorted by id, and the runs of equal ids.
template <class Id>
struct CubIds {
  Id const* ids;            ///< [count]
  unsigned const* places;   ///< [count]: 0, 1, …
  std::int64_t count;       ///< below 2^31
  int bits;                 ///< the lowest bits of ids, by which they are sorted
  Id* sorted;               ///< [count], written
  unsigned* sorted_places;  ///< [count], written
  Id* values;               ///< [count], written: the distinct ids
  std::int32_t* counts;     ///< [count], written: how often each distinct id occurs
  std::int64_t* distinct;   ///< scalar, written
};
/// Sorts pairs by cub::DeviceRadixSort, and finds runs by cub::DeviceRunLengthEncode. Id is
/// std::int32_t or std::int64_t.
template <class Id>
void cub_unique(CubCache& cache, CubIds<Id> const& ids, CUstream_st* stream);

}  // namespace benchmarks::shapes
