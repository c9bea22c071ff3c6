// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "elementwise_pack.cuh"
#include "top_k_block.cuh"

#include <msstream/base/error.hpp>

#include <limits>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kWarpColumns = 128;  ///< what a warp sorts in registers
/// Threads for a row that is sorted at once, and for a longer one.
constexpr int kShortRowThreads = 128;
constexpr int kLongRowThreads = 512;

/// Sorts 32 * PerLane keys, descending; key i is in lane i % 32, at i / 32.
template <int PerLane>
__device__ void sort_in_warp(std::uint64_t (&keys)[PerLane], int lane) {
#pragma unroll
  for (int size = 2; size <= 32 * PerLane; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int k = 0; k < PerLane; ++k) {
        int const i = k * 32 + lane;
        bool const descends = (i & size) == 0;
        if (stride >= 32) {
          int const other = k ^ (stride / 32);
          if (k < other && (keys[k] < keys[other]) == descends) {
            auto const key = keys[k];
            keys[k] = keys[other];
            keys[other] = key;
          }
        } else {
          auto const other = __shfl_xor_sync(0xFFFFFFFFU, keys[k], stride);
          bool const takes_greater = ((lane & stride) == 0) == descends;
          keys[k] = takes_greater == (other > keys[k]) ? other : keys[k];
        }
      }
    }
  }
}

/// A warp a row.
template <int PerLane>
__global__ void __launch_bounds__(kThreads) top_k_by_warp_kernel(TopKArgs args) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const row = grid_thread() / 32;
  if (row >= args.rows) {
    return;
  }
  auto const* const values = args.values + row * args.columns;
  std::uint64_t keys[PerLane];
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    int const column = k * 32 + lane;
    keys[k] = column < args.columns ? top_key(values[column], static_cast<unsigned>(column)) : 0;
  }
  sort_in_warp(keys, lane);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    if (int const j = k * 32 + lane; j < args.k) {
      auto const column = column_of(keys[k]);
      args.top[row * args.k + j] = values[column];
      args.indices[row * args.k + j] = column;
    }
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
  require(args.columns <= std::numeric_limits<std::int32_t>::max(),
          "top_k: rows of ",
          args.columns,
          " elements; expected fewer than 2^31");
  if (args.rows == 0 || args.k == 0) {
    return;
  }
  if (args.columns <= kWarpColumns) {
    auto const blocks = grid_for(args.rows, kThreads / 32);
    if (args.columns <= 32) {
      top_k_by_warp_kernel<1><<<blocks, kThreads, 0, stream>>>(args);
    } else if (args.columns <= 64) {
      top_k_by_warp_kernel<2><<<blocks, kThreads, 0, stream>>>(args);
    } else {
      top_k_by_warp_kernel<4><<<blocks, kThreads, 0, stream>>>(args);
    }
  } else if (args.columns <= kSortedKeys) {
    top_k_by_block_kernel<kShortRowThreads>
        <<<grid_for(args.rows, 1), kShortRowThreads, 0, stream>>>(args);
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
