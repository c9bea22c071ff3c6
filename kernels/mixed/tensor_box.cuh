// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixed/block_barrier.cuh"

#include <cuda.h>

#include <cstdint>

/// Copies of boxes of matrices from global to shared memory by the copy engine of compute
/// capability 9.0 (`cp.async.bulk.tensor` of PTX). Elements outside of the matrix are copied as
/// zeros.
namespace msstream::ops::kernels {

/// Copies the box of `map` that begins at a column and a row of its matrix, and counts its bytes at
/// the barrier.
__device__ inline void load_box(std::uint32_t to,
                                CUtensorMap const& map,
                                std::int32_t column,
                                std::int32_t row,
                                BlockBarrier const& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map),
      "r"(column),
      "r"(row),
      "r"(barrier.address())
      : "memory");
}

/// Copies a box to the same address of both blocks of a cluster of two, and counts its bytes at the
/// barrier of each.
__device__ inline void load_box_to_pair(std::uint32_t to,
                                        CUtensorMap const& map,
                                        std::int32_t column,
                                        std::int32_t row,
                                        BlockBarrier const& barrier) {
  constexpr std::uint16_t kBoth = 3;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map),
      "r"(column),
      "r"(row),
      "r"(barrier.address()),
      "h"(kBoth)
      : "memory");
}

}  // namespace msstream::ops::kernels
