// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "hash_functions.hpp"

#include <msstream/ops/kernels/hash.hpp>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

// One thread an element; the threads beyond *count have nothing to do.
__global__ void hash_kernel(HashArgs args) {
  auto const count = args.count != nullptr ? *args.count : args.capacity;
  auto const i = grid_thread();
  if (i < count) {
    args.buckets[i] = bucket_of(args.keys.at(i), args.salt, args.bucket_count);
  }
}

__global__ void bucketize_kernel(BucketizeArgs args) {
  auto const count = args.count != nullptr ? *args.count : args.capacity;
  auto const i = grid_thread();
  if (i < count) {
    args.buckets[i] = count_not_above(args.boundaries, args.boundary_count, args.values[i]);
  }
}

}  // namespace

void hash_to_bucket(CudaStream stream, HashArgs const& args) {
  if (args.capacity > 0) {
    hash_kernel<<<grid_for(args.capacity, kThreads), kThreads, 0, stream>>>(args);
    check_launch("hash_to_bucket");
  }
}

void bucketize(CudaStream stream, BucketizeArgs const& args) {
  if (args.capacity > 0) {
    bucketize_kernel<<<grid_for(args.capacity, kThreads), kThreads, 0, stream>>>(args);
    check_launch("bucketize");
  }
}

}  // namespace msstream::ops::kernels
