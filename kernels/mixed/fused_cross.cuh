// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixed/fused_cross_combine.cuh"
#include "mixed/fused_cross_work.cuh"
#include "mixed/tensor_box.cuh"

#include <cuda.h>

#include <cstdint>
#include <type_traits>

/// A product of matrices of half precision, and the elementwise step behind it, in one kernel for
/// compute capability 9.0: the step is limited by memory and the product by the tensor cores, and
/// each runs while the other waits.
///
/// A block keeps 128 rows of the left matrix in shared memory and goes over the columns of the
/// right one in tiles of 128. A thread has boxes of 64 terms copied in, a warpgroup multiplies them
/// and puts the rounded tile into shared memory, a quarter at a time, and eight warps do the
/// elementwise step. The two blocks of a cluster have neighbouring rows, and share the copies of
/// the right matrix.
namespace msstream::ops::kernels {

inline constexpr int kCrossThreads = 512;  ///< 4 warps of copies, 4 of products, 8 of combinations

/// Copies in the operands of products, by one thread.
template <CrossStage Stage>
__device__ __forceinline__ void copy_cross_operands(FusedCross const& args,
                                                    CrossMemory const& memory,
                                                    CUtensorMap const& rows,
                                                    CUtensorMap const& weight) {
  RingPlace stage;
  std::uint32_t turn = 0;
  auto const half = static_cast<int>(block_of_cluster());
  for (CrossWork work(args); work.exists(); work.next(), ++turn) {
    memory.rows_are_free().wait((turn + 1) % 2);
    for (int tile = work.first_tile(); tile < work.end_tile(); ++tile) {
      for (int box = 0; box < args.boxes; ++box) {
        int const term = box * kBoxElements;
        if (tile == work.first_tile()) {
          auto const full = memory.rows_are_full(box);
          full.arrive_and_expect(kBoxBytes);
          load_box(memory.rows_box(box), rows, term, work.block() * kBlockRows, full);
        }
        memory.stage_is_free(stage.slot).wait(stage.parity ^ 1U);
        auto const full = memory.stage_is_full(stage.slot);
        full.arrive_and_expect(kBoxBytes);
        // Each block of the cluster copies 64 columns of the tile to both.
        auto const to = memory.stage(stage.slot) + static_cast<std::uint32_t>(half) * kHalfBoxBytes;
        int const column = tile * kTileColumns + half * kBoxElements;
        if constexpr (Stage == CrossStage::forward) {
          load_box_to_pair(to, weight, column, term, full);
        } else {
          load_box_to_pair(to, weight, term, column, full);
        }
        stage.advance(kStages);
      }
    }
  }
}

/// Adds the bias of a tile to its sums. Lane l has that of columns 2 l and 2 l + 1 of each half.
template <class T>
__device__ __forceinline__ void add_bias(std::uint32_t const (&bias)[2], WarpgroupSums (&sums)[2]) {
#pragma unroll
  for (int piece = 0; piece < 16; ++piece) {
    int const lane = 4 * (piece % 8) + static_cast<int>(threadIdx.x) % 4;
    auto const added = widened_pair<T>(__shfl_sync(kAllLanes, bias[piece / 8], lane));
#pragma unroll
    for (auto& of_rows : sums) {
#pragma unroll
      for (int element = 4 * piece; element < 4 * piece + 4; element += 2) {
        of_rows[element] += added.x;
        of_rows[element + 1] += added.y;
      }
    }
  }
}

/// Multiplies, by a warpgroup, and hands tiles over to the elementwise step.
template <class T, CrossStage Stage>
__device__ __forceinline__ void multiply_cross_tiles(FusedCross const& args,
                                                     CrossMemory const& memory) {
  using Half = std::conditional_t<std::is_same_v<T, bfloat16>, __nv_bfloat16, __half>;
  constexpr bool kForward = Stage == CrossStage::forward;
  constexpr int kTerms = 16;  // of one instruction
  int const warp = static_cast<int>(threadIdx.x) / 32 % 4;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  RingPlace stage;
  RingPlace unit;
  std::uint32_t turn = 0;
  auto const release = [&](std::uint32_t slot) {
    if (lane < 2) {
      memory.stage_is_free(slot).arrive_at(static_cast<std::uint32_t>(lane));
    }
  };
  for (CrossWork work(args); work.exists(); work.next(), ++turn) {
    for (int tile = work.first_tile(); tile < work.end_tile(); ++tile) {
      std::uint32_t bias[2] = {};  // see add_bias()
      if constexpr (kForward) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int const column = tile * kTileColumns + half * kBoxElements + 2 * lane;
          if (column < args.columns) {
            bias[half] = __ldg(
                reinterpret_cast<std::uint32_t const*>(static_cast<T const*>(args.bias) + column));
          }
        }
      }
      WarpgroupSums sums[2];  // of 64 rows each
      std::uint32_t used = 0;
      for (int box = 0; box < args.boxes; ++box) {
        memory.rows_are_full(box).wait(turn % 2);
        memory.stage_is_full(stage.slot).wait(stage.parity);
        begin_products();
        auto const rows = memory.rows_box(box);
        auto const weight = memory.stage(stage.slot);
#pragma unroll
        for (std::uint32_t step = 0; step < kBoxElements / kTerms; ++step) {
          auto const b = kForward ? operand_by_columns(weight + step * kTerms * kBoxRowBytes)
                                  : operand_by_rows(weight + step * kTerms * sizeof(T));
          bool const adds = box > 0 || step > 0;
          auto const a = rows + step * kTerms * static_cast<std::uint32_t>(sizeof(T));
          start_product<Half, kForward>(sums[0], operand_by_rows(a), b, adds);
          start_product<Half, kForward>(sums[1], operand_by_rows(a + kHalfBoxBytes), b, adds);
        }
        end_products();
        if (box > 0) {
          wait_for_products<1>();
          release(used);
        }
        used = stage.slot;
        stage.advance(kStages);
      }
      wait_for_products<0>();
      hold(sums[0]);
      hold(sums[1]);
      release(used);
      if (tile + 1 == work.end_tile() && lane == 0) {
        memory.rows_are_free().arrive();
      }
      if constexpr (kForward) {
        add_bias<T>(bias, sums);
      }
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter) {
        memory.unit_is_free(unit.slot).wait(unit.parity ^ 1U);
        auto const& of_rows = sums[quarter / 2];
        auto const to = memory.unit(unit.slot) + static_cast<std::uint32_t>(lane % 4) * 4;
#pragma unroll
        for (int piece = 0; piece < 16; ++piece) {
          int const element = 4 * piece + quarter % 2 * 2;
          auto const pair = narrowed_pair<T>(of_rows[element], of_rows[element + 1]);
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(unit_piece(to, warp * 8 + lane / 4, piece)),
                       "r"(pair)
                       : "memory");
        }
        __syncwarp();
        if (lane == 0) {
          memory.unit_is_full(unit.slot).arrive();
        }
        unit.advance(kUnits);
      }
    }
  }
}

template <class T, CrossStage Stage>
__global__ void __launch_bounds__(kCrossThreads, 1)
    fused_cross_kernel(__grid_constant__ CUtensorMap const rows,
                       __grid_constant__ CUtensorMap const weight,
                       __grid_constant__ FusedCross const args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) char shared[];
  CrossMemory const memory(shared_address(shared), args.boxes);
  int const warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (std::uint32_t slot = 0; slot < kStages; ++slot) {
      memory.stage_is_full(slot).initialise(1);
      memory.stage_is_free(slot).initialise(2 * 4);  // the warps of products of both blocks
    }
    for (std::uint32_t slot = 0; slot < kUnits; ++slot) {
      memory.unit_is_full(slot).initialise(4);
      memory.unit_is_free(slot).initialise(CrossCombine<T, Stage>::kWarps);
    }
    for (int box = 0; box < kMostBoxes; ++box) {
      memory.rows_are_full(box).initialise(1);
    }
    memory.rows_are_free().initialise(4);
    publish_barriers();
  }
  synchronise_cluster();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      copy_cross_operands<Stage>(args, memory, rows, weight);
    }
  } else if (warp < 8) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
    multiply_cross_tiles<T, Stage>(args, memory);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 136;");
    CrossCombine<T, Stage>(args, memory, warp - 8).run();
  }
  // The other block may still arrive at barriers of this one.
  synchronise_cluster();
#endif
}

}  // namespace msstream::ops::kernels
