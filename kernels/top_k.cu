// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "elementwise_pack.cuh"
#include "top_k_block.cuh"
#include "top_k_warp.cuh"

#include <msstream/base/error.hpp>

#include <limits>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRowThreads = 512;  ///< for a row that no warp holds

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
  require(args.columns <= std::numeric_limits<std::int32_t>::max(),
          "top_k: rows of ",
          args.columns,
          " elements; expected fewer than 2^31");
  if (args.rows == 0 || args.k == 0) {
    return;
  }
  auto const by_warps = [&](auto* kernel) {
    kernel<<<grid_for(args.rows, kTopThreads / 32), kTopThreads, 0, stream>>>(args);
  };
  if (args.columns <= 32) {
    by_warps(sorted_top_k_kernel<1>);
  } else if (args.columns <= 64) {
    by_warps(sorted_top_k_kernel<2>);
  } else if (args.columns <= kSortedColumns) {
    by_warps(sorted_top_k_kernel<4>);
  } else if (args.columns <= kHeldColumns / 4) {
    by_warps(selected_top_k_kernel<8>);
  } else if (args.columns <= kHeldColumns / 2) {
    by_warps(selected_top_k_kernel<16>);
  } else if (args.columns <= kHeldColumns) {
    by_warps(selected_top_k_kernel<32>);
  } else {
    top_k_by_block_kernel<kRowThreads><<<grid_for(args.rows, 1), kRowThreads, 0, stream>>>(args);
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
