// SPDX-License-Identifier: Apache-2.0
#include "cub_baselines.hpp"
#include "cuda_success.hpp"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>

namespace benchmarks::shapes {

namespace {

/// Calls algorithm(memory, bytes) twice, as CUB's algorithms want it: for the bytes of temporary
/// memory that it needs, and with that memory.
template <class Algorithm>
void run(CubCache& cache, CUstream_st* stream, char const* name, Algorithm const& algorithm) {
  std::size_t bytes = 0;
  require_success(algorithm(nullptr, bytes), name);
  void* const memory = cache.allocate(bytes, stream);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  auto const code = algorithm(memory, bytes);
  cache.free(memory);
  require_success(code, name);
}

template <class Algorithm>
void reduce(CubCache& cache,
            CubSegments const& segments,
            CUstream_st* stream,
            char const* name,
            Algorithm const& algorithm) {
  run(cache, stream, name, [&](void* memory, std::size_t& bytes) {
    return algorithm(memory,
                     std::ref(bytes),
                     segments.values,
                     segments.reduced,
                     segments.segments,
                     segments.offsets,
                     segments.offsets + 1,
                     stream);
  });
}

}  // namespace

void cub_sum(CubCache& cache, CubSegments const& segments, CUstream_st* stream) {
  reduce(cache, segments, stream, "cub::DeviceSegmentedReduce::Sum", [](auto... arguments) {
    return cub::DeviceSegmentedReduce::Sum(arguments...);
  });
}

void cub_max(CubCache& cache, CubSegments const& segments, CUstream_st* stream) {
  reduce(cache, segments, stream, "cub::DeviceSegmentedReduce::Max", [](auto... arguments) {
    return cub::DeviceSegmentedReduce::Max(arguments...);
  });
}

template <class Id>
void cub_unique(CubCache& cache, CubIds<Id> const& ids, CUstream_st* stream) {
  auto const count = static_cast<int>(ids.count);
  run(cache, stream, "cub::DeviceRadixSort::SortPairs", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory,
                                           bytes,
                                           ids.ids,
                                           ids.sorted,
                                           ids.places,
                                           ids.sorted_places,
                                           count,
                                           0,
                                           ids.bits,
                                           stream);
  });
  run(cache, stream, "cub::DeviceRunLengthEncode::Encode", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(
        memory, bytes, ids.sorted, ids.values, ids.counts, ids.distinct, count, stream);
  });
}

template void cub_unique(CubCache&, CubIds<std::int32_t> const&, CUstream_st*);
template void cub_unique(CubCache&, CubIds<std::int64_t> const&, CUstream_st*);

}  // namespace benchmarks::shapes
