// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"

#include <msstream/ops/kernels/row_parts.hpp>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void merge_ids_kernel(MergeIdsArgs args) {
  auto const i = grid_thread();
  if (i < args.capacity) {
    args.merged[i] = i < *args.count ? args.ids[i] : -1;
  }
}

}  // namespace

void merge_ids(CudaStream stream, MergeIdsArgs const& args) {
  if (args.capacity > 0) {
    merge_ids_kernel<<<grid_for(args.capacity, kThreads), kThreads, 0, stream>>>(args);
    check_launch("merge_ids");
  }
}

}  // namespace msstream::ops::kernels
