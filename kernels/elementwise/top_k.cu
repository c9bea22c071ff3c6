// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "common/vector_map.cuh"
#include "elementwise/top_k_block.cuh"
#include "elementwise/top_k_warp.cuh"

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
/// The number of threads for each row that is too long for the registers of a warp.
constexpr int kLongRowThreads = 512;

template <int PerLane, int SortedPerLane>
void launch_by_warp(CudaStream stream, TopKArgs const& args) {
  top_k_by_warp_kernel<PerLane, SortedPerLane>
      <<<grid_for(args.rows, kTopWarps), kTopThreads, 0, stream>>>(args);
}

/// Launches the top-k kernel for rows that a warp holds in registers but cannot sort entirely.
template <int PerLane>
void launch_by_bound(CudaStream stream, TopKArgs const& args) {
  if (args.k <= 32) {
    launch_by_warp<PerLane, 1>(stream, args);
  } else if (args.k <= 64) {
    launch_by_warp<PerLane, 2>(stream, args);
  } else if (args.k <= 128) {
    launch_by_warp<PerLane, 4>(stream, args);
  } else {
    launch_by_warp<PerLane, 8>(stream, args);
  }
}

__global__ void __launch_bounds__(kThreads) top_k_gradient_kernel(TopKGradientArgs args) {
  auto const i = grid_thread();
  if (i < args.rows * args.k) {
    if (auto const column = args.indices[i]; column >= 0 && column < args.columns) {
      args.value_gradients[i / args.k * args.columns + column] = args.top_gradient[i];
    }
  }
}

}  // namespace

std::size_t top_k_workspace_bytes(CudaStream, std::int64_t) {
  return 0;
}

void top_k(CudaStream stream, TopKArgs const& args) {
  require_int32("top_k", args.columns, "columns");
  if (args.rows == 0 || args.k == 0) {
    return;
  }
  if (args.columns <= 32) {
    launch_by_warp<1, 1>(stream, args);
  } else if (args.columns <= 64) {
    launch_by_warp<2, 2>(stream, args);
  } else if (args.columns <= 128) {
    launch_by_warp<4, 4>(stream, args);
  } else if (args.columns <= 256) {
    launch_by_bound<8>(stream, args);
  } else if (args.columns <= 512) {
    launch_by_bound<16>(stream, args);
  } else if (args.columns <= 1024) {
    launch_by_bound<32>(stream, args);
  } else {
    top_k_by_block_kernel<kLongRowThreads>
        <<<grid_for(args.rows, 1), kLongRowThreads, 0, stream>>>(args);
  }
  check_launch("top_k");
}

void top_k_gradient(CudaStream stream, TopKGradientArgs const& args) {
  set_to_zero(stream, args.value_gradients, args.rows * args.columns);
  if (args.rows * args.k > 0) {
    top_k_gradient_kernel<<<grid_for(args.rows * args.k, kThreads), kThreads, 0, stream>>>(args);
    check_launch("top_k_gradient");
  }
}

}  // namespace msstream::ops::kernels
