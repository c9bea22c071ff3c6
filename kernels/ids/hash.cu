// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/search.hpp"
#include "ids/hash.hpp"
#include "ids/hash_functions.hpp"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
/// The number of elements per thread, all loaded before the first is stored.
constexpr int kInFlight = 4;

/// Calls write(i, load(i)) for the elements i of the calling thread, with kInFlight loads in
/// flight. The elements of a warp are neighbours.
template <class Load, class Write>
__device__ void for_each_element(std::int64_t const* existing,
                                 std::int64_t capacity,
                                 Load const& load,
                                 Write const& write) {
  auto const count = existing_places(existing, capacity);
  auto const first = std::int64_t{blockIdx.x} * (kThreads * kInFlight) + threadIdx.x;
  decltype(load(first)) loaded[kInFlight];
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    if (auto const i = first + k * kThreads; i < count) {
      loaded[k] = load(i);
    }
  }
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    if (auto const i = first + k * kThreads; i < count) {
      write(i, loaded[k]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) hash_kernel(HashArgs args) {
  for_each_element(
      args.count,
      args.capacity,
      [&](std::int64_t i) { return args.keys.at(i); },
      [&](std::int64_t i, std::int64_t key) {
        args.buckets[i] = bucket_of(key, args.salt, args.bucket_count);
      });
}

__global__ void __launch_bounds__(kThreads)
    hash_columns_kernel(__grid_constant__ HashColumnsArgs const args) {
  for_each_element(
      nullptr,
      args.columns * args.column_keys,
      [&](std::int64_t i) { return args.keys.at(i); },
      [&](std::int64_t i, std::int64_t key) {
        auto const column = i / args.column_keys;
        args.buckets[i] = bucket_of(
            key, args.salt + static_cast<std::uint64_t>(column), args.bucket_counts[column]);
      });
}

__global__ void __launch_bounds__(kThreads) bucketize_kernel(BucketizeArgs args) {
  for_each_element(
      args.count,
      args.capacity,
      [&](std::int64_t i) { return args.values[i]; },
      [&](std::int64_t i, float value) {
        args.buckets[i] = count_not_above(args.boundaries, args.boundary_count, value);
      });
}

}  // namespace

void hash_to_bucket(CudaStream stream, HashArgs const& args) {
  if (args.capacity > 0) {
    hash_kernel<<<grid_for(args.capacity, kThreads * kInFlight), kThreads, 0, stream>>>(args);
    check_launch("hash_to_bucket");
  }
}

void hash_columns(CudaStream stream, HashColumnsArgs const& args) {
  if (auto const keys = args.columns * args.column_keys; keys > 0) {
    hash_columns_kernel<<<grid_for(keys, kThreads * kInFlight), kThreads, 0, stream>>>(args);
    check_launch("hash_to_bucket");
  }
}

void bucketize(CudaStream stream, BucketizeArgs const& args) {
  if (args.capacity > 0) {
    bucketize_kernel<<<grid_for(args.capacity, kThreads * kInFlight), kThreads, 0, stream>>>(args);
    check_launch("bucketize");
  }
}

}  // namespace msstream::ops::kernels
