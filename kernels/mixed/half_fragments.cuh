// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/launch.cuh"

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <type_traits>

/// Products of small matrices of half precision by a warp. The 32 lanes hold the elements of a
/// matrix, its fragments, in the order that the instructions for matrices define (PTX ISA,
/// "Matrix Fragments for mma.m16n8k16 with floating point type"): lane 4 g + t holds elements 2 t
/// and 2 t + 1 of row g. All lanes of a warp must call these functions together.
namespace msstream::ops::kernels {

/// Returns two numbers as one register, the first in its low half.
template <class T>
__device__ std::uint32_t packed(T low, T high) {
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16U;
}

/// Returns two floats, each rounded to T, as one register, the first in its low half.
template <class T>
__device__ std::uint32_t packed(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t both;
  if constexpr (std::is_same_v<T, float16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
#else
  return packed(narrowed<T>(low), narrowed<T>(high));
#endif
}

/// Returns the lane's register of the transposed matrix of 8 x 8 elements.
__device__ inline std::uint32_t transposed(std::uint32_t of_matrix) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(result) : "r"(of_matrix));
  return result;
}

/// Loads four matrices of 8 x 8 elements from shared memory, one into each register. Lane l gives
/// the address of row l % 8 of matrix l / 8 in shared memory, a multiple of 16 bytes.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
template <class T>
__device__ void load_matrices(std::uint32_t (&to)[4], T const* row) {
  load_matrices(to, static_cast<std::uint32_t>(__cvta_generic_to_shared(row)));
}
/// Like load_matrices(), but transposes each of the matrices.
__device__ inline void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// Returns the element at an address in shared memory.
template <class T>
__device__ T half_at(std::uint32_t address) {
  std::uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(bits) : "r"(address) : "memory");
  return T{bits};
}
/// Stores a register to shared memory.
__device__ inline void store_pair(std::uint32_t address, std::uint32_t both) {
  asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(address), "r"(both) : "memory");
}

namespace detail {

/// Returns the float of the low (0) or high (1) half of a register.
template <class T>
__device__ float half_of(std::uint32_t both, int which) {
  return widen(T{static_cast<std::uint16_t>(both >> (16 * which))});
}

/// Computes multiply_add() without instructions for matrices, in order of the columns of `a`, for
/// GPUs before compute capability 8.0. It is a call, because a kernel with many inlined copies
/// takes minutes to compile.
template <class T>
__device__ __noinline__ float4 multiply_add_by_shuffles(float4 sums, uint4 a, uint2 b) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const row = lane / 4;
  int const column = lane % 4 * 2;
#pragma unroll 1
  for (int t = 0; t < 8; ++t) {
    int const in_row = row * 4 + t % 4;
    auto const upper = __shfl_sync(kAllLanes, t < 4 ? a.x : a.z, in_row);
    auto const lower = __shfl_sync(kAllLanes, t < 4 ? a.y : a.w, in_row);
    auto const left = __shfl_sync(kAllLanes, t < 4 ? b.x : b.y, column * 4 + t % 4);
    auto const right = __shfl_sync(kAllLanes, t < 4 ? b.x : b.y, (column + 1) * 4 + t % 4);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      sums.x = fmaf(half_of<T>(upper, k), half_of<T>(left, k), sums.x);
      sums.y = fmaf(half_of<T>(upper, k), half_of<T>(right, k), sums.y);
      sums.z = fmaf(half_of<T>(lower, k), half_of<T>(left, k), sums.z);
      sums.w = fmaf(half_of<T>(lower, k), half_of<T>(right, k), sums.w);
    }
  }
  return sums;
}

}  // namespace detail

/// Adds to `sums` [16, 8] the product of `a` [16, 16] and `b` [16, 8], in float32. The registers of
/// `a` hold rows 0 to 7 and 8 to 15 of columns 0 to 7, then those of columns 8 to 15. The registers
/// of `b` hold rows 0 to 7 and rows 8 to 15, transposed. `sums` are elements 2 t and 2 t + 1 of row
/// g, then of row g + 8, in lane 4 g + t.
template <class T>
__device__ void multiply_add(float (&sums)[4],
                             std::uint32_t const (&a)[4],
                             std::uint32_t b0,
                             std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  auto const added =
      detail::multiply_add_by_shuffles<T>(make_float4(sums[0], sums[1], sums[2], sums[3]),
                                          make_uint4(a[0], a[1], a[2], a[3]),
                                          make_uint2(b0, b1));
  sums[0] = added.x;
  sums[1] = added.y;
  sums[2] = added.z;
  sums[3] = added.w;
#else
  if constexpr (std::is_same_v<T, float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#endif
}

}  // namespace msstream::ops::kernels
