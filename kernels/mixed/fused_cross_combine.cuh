// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "mixed/fused_cross.hpp"
#include "mixed/fused_cross_work.cuh"

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// Two neighbouring elements of half precision in a register.
template <class T>
__device__ inline float2 widened_pair(std::uint32_t pair) {
  auto const low = static_cast<std::uint16_t>(pair);
  auto const high = static_cast<std::uint16_t>(pair >> 16U);
  return {widen(T{low}), widen(T{high})};
}
template <class T>
__device__ inline std::uint32_t narrowed_pair(float low, float high) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    auto const pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<std::uint32_t const*>(&pair);
  } else {
    auto const pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<std::uint32_t const*>(&pair);
  }
}

__device__ inline uint4 load_shared(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ inline void store_shared(std::uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(v.x),
               "r"(v.y),
               "r"(v.z),
               "r"(v.w)
               : "memory");
}
/// Loads 16 bytes that no other thread of the multiprocessor reads.
__device__ inline uint4 load_passing(void const* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Returns the address of 16 bytes, one of the 16 pieces of a row of a unit. Pieces are swizzled,
/// so that neither those who store columns nor those who load rows wait for the same bank.
__device__ inline std::uint32_t unit_piece(std::uint32_t unit, int row, int piece) {
  return unit + static_cast<std::uint32_t>(row) * kUnitRowBytes +
         static_cast<std::uint32_t>(piece ^ (row % 8)) * 16;
}
/// Returns the row of a tile that is a row of one of its four units. A unit has those rows that the
/// lanes of a warpgroup have in the same registers.
__device__ inline int tile_row(int unit, int row) {
  return unit / 2 * 64 + row / 8 * 16 + unit % 2 * 8 + row % 8;
}

/// The elementwise step, by kWarps warps. A warp takes a unit of a tile in two steps of two
/// rows, a lane 8 columns of one of them. The operands of a step in global memory are requested
/// kAhead steps before it.
template <class T, CrossStage Stage>
class CrossCombine {
 public:
  static constexpr int kWarps = 8;

  __device__ CrossCombine(FusedCross const& args, CrossMemory const& memory, int warp)
      : args_(args),
        memory_(memory),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        piece_(lane_ % 16) {}

  __device__ __forceinline__ void run() {
    CrossWork work(args_);
    int tile = work.first_tile();
#pragma unroll
    for (int step = 0; step < kAhead; ++step) {
      request(step, work.block(), tile);
    }
    RingPlace unit;
    for (bool more = true; more;) {
      int const block = work.block();
      int const columns_tile = tile;
      if (++tile == work.end_tile()) {
        work.next();
        more = work.exists();
        tile = more ? work.first_tile() : 0;
      }
      float sums[8] = {};
      auto const request_ahead = [&](int step) {
        if (step + kAhead < kSteps) {
          request(step + kAhead, block, columns_tile);
        } else if (more) {
          request(step + kAhead - kSteps, work.block(), tile);
        }
      };
#pragma unroll
      for (int step = 0; step < kSteps; step += 2) {
        request_ahead(step);
        memory_.unit_is_full(unit.slot).wait(unit.parity);
        // Both at once: a register that a store has yet to read would hold up the second load.
        auto const first = product_of(unit.slot, step);
        auto const second = product_of(unit.slot, step + 1);
        __syncwarp();
        if (lane_ == 0) {
          memory_.unit_is_free(unit.slot).arrive();
        }
        unit.advance(kUnits);
        combine(step, first, block, columns_tile, sums);
        request_ahead(step + 1);
        combine(step + 1, second, block, columns_tile, sums);
      }
      if constexpr (Stage == CrossStage::gradient) {
        store_sums(block, columns_tile, sums);
      }
    }
  }

 private:
  static constexpr bool kIsLast = Stage == CrossStage::last_gradient;
  static constexpr int kSteps = 8;  // of a tile
  static constexpr int kAhead = kIsLast ? 1 : 4;
  static constexpr int kKept = 2 * kAhead;
  static constexpr int kFactors = kIsLast ? 2 * kMostCrossLayers : 2;

  [[nodiscard]] __device__ int unit_row(int step) const {
    return 4 * warp_ + lane_ / 16 + step % 2 * 2;
  }
  [[nodiscard]] __device__ uint4 product_of(std::uint32_t slot, int step) const {
    return load_shared(unit_piece(memory_.unit(slot), unit_row(step), piece_));
  }
  [[nodiscard]] __device__ int row_of(int step, int block) const {
    return block * kBlockRows + tile_row(step / 2, unit_row(step));
  }
  [[nodiscard]] __device__ int column_of(int tile) const {
    return tile * kTileColumns + piece_ * 8;
  }
  [[nodiscard]] __device__ bool is_inside(int row, int column) const {
    return row < args_.rows && column < args_.columns;
  }
  [[nodiscard]] __device__ std::int64_t element(int row, int column) const {
    return static_cast<std::int64_t>(row) * args_.columns + column;
  }

  __device__ __forceinline__ void request(int step, int block, int tile) {
    int const row = row_of(step, block);
    int const column = column_of(tile);
#pragma unroll
    for (int i = 0; i < kFactors; ++i) {
      bool const exists = is_inside(row, column) && (!kIsLast || args_.factors[i] != nullptr);
      kept_[step % kKept][i] =
          exists ? load_passing(static_cast<T const*>(args_.factors[i]) + element(row, column))
                 : uint4{};
    }
  }

  __device__ __forceinline__ void combine(
      int step, uint4 const& product, int block, int tile, float (&sums)[8]) {
    uint4 const(&factors)[kFactors] = kept_[step % kKept];
    uint4 rounded = product;
    uint4 result;
    auto const each = [&](std::uint32_t uint4::*word, float& low_sum, float& high_sum) {
      auto const operand = [&](int i) { return widened_pair<T>(factors[i].*word); };
      auto const value = widened_pair<T>(product.*word);
      if constexpr (Stage == CrossStage::forward) {
        auto const first = operand(0);
        auto const input = operand(1);
        result.*word = narrowed_pair<T>(__fadd_rn(__fmul_rn(first.x, value.x), input.x),
                                        __fadd_rn(__fmul_rn(first.y, value.y), input.y));
      } else if constexpr (Stage == CrossStage::gradient) {
        auto const first = operand(0);
        auto const added = operand(1);
        rounded.*word = narrowed_pair<T>(value.x + added.x, value.y + added.y);
        auto const sum = widened_pair<T>(rounded.*word);
        float const low = sum.x * first.x;
        float const high = sum.y * first.y;
        result.*word = narrowed_pair<T>(low, high);
        low_sum += low;
        high_sum += high;
      } else {
        auto const added = operand(0);
        float low = value.x + added.x;
        float high = value.y + added.y;
#pragma unroll
        for (int i = 0; i < kFactors; i += 2) {
          auto const gradient = operand(i);
          auto const projected = operand(i + 1);
          low = __fadd_rn(low, __fmul_rn(gradient.x, projected.x));
          high = __fadd_rn(high, __fmul_rn(gradient.y, projected.y));
        }
        result.*word = narrowed_pair<T>(low, high);
      }
    };
    each(&uint4::x, sums[0], sums[1]);
    each(&uint4::y, sums[2], sums[3]);
    each(&uint4::z, sums[4], sums[5]);
    each(&uint4::w, sums[6], sums[7]);
    int const row = row_of(step, block);
    int const column = column_of(tile);
    if (!is_inside(row, column)) {
      return;
    }
    auto const store = [&](void* to, uint4 const& values) {
      *reinterpret_cast<uint4*>(static_cast<T*>(to) + element(row, column)) = values;
    };
    if (!kIsLast && args_.product != nullptr) {
      store(args_.product, rounded);
    }
    store(args_.output, result);
  }

  /// Stores four rows of sums of the block's rows of a tile, each of two warps.
  __device__ __forceinline__ void store_sums(int block, int tile, float (&sums)[8]) {
#pragma unroll
    for (float& sum : sums) {
      sum += __shfl_xor_sync(kAllLanes, sum, 16);
    }
    auto const in_shared =
        memory_.sums() + static_cast<std::uint32_t>((warp_ % 4) * kTileColumns + piece_ * 8) * 4;
    auto const bits = [&](int i) { return __float_as_uint(sums[i]); };
    if (warp_ >= 4 && lane_ < 16) {
      store_shared(in_shared, {bits(0), bits(1), bits(2), bits(3)});
      store_shared(in_shared + 16, {bits(4), bits(5), bits(6), bits(7)});
    }
    wait_for_warps();
    int const column = column_of(tile);
    if (warp_ < 4 && lane_ < 16 && is_inside(block * kBlockRows, column)) {
      auto const low = load_shared(in_shared);
      auto const high = load_shared(in_shared + 16);
      auto const sum = [&](int i, std::uint32_t other) { return sums[i] + __uint_as_float(other); };
      auto* const to =
          reinterpret_cast<float4*>(args_.partial_sums + element(block * 4 + warp_, column));
      to[0] = {sum(0, low.x), sum(1, low.y), sum(2, low.z), sum(3, low.w)};
      to[1] = {sum(4, high.x), sum(5, high.y), sum(6, high.z), sum(7, high.w)};
    }
    wait_for_warps();
  }
  /// Waits for the warps of the elementwise step.
  static __device__ void wait_for_warps() {
    asm volatile("bar.sync 1, %0;" ::"n"(kWarps * 32) : "memory");
  }

  FusedCross const& args_;
  CrossMemory const& memory_;
  int warp_;
  int lane_;
  int piece_;  ///< of the 16 pieces of 8 columns of a tile
  uint4 kept_[kKept][kFactors];
};

}  // namespace msstream::ops::kernels
