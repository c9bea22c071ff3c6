// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

/// Products on the tensor cores of compute capability 9.0 by a warpgroup, four warps of which the
/// first has a number divisible by four (`wgmma` of PTX): a [64, 16] · b [16, 128] + sums [64,
/// 128], of half precision in shared memory, with sums of float32 in registers.
///
/// Shared memory holds boxes of rows of 128 bytes whose 16-byte pieces are swizzled, as copies with
/// CU_TENSOR_MAP_SWIZZLE_128B leave them, aligned to 1,024 bytes.
namespace msstream::ops::kernels {

inline constexpr int kBoxElements = 64;  ///< of half precision in a row of a box
inline constexpr std::uint32_t kBoxRowBytes = 128;

/// The sums of a lane: of rows r = 16 w + l / 4 and r + 8 of the calling warp w of the warpgroup
/// and lane l. Elements 4 j and 4 j + 1 are columns 8 j + 2 (l % 4) and the next one of row r,
/// elements 4 j + 2 and 4 j + 3 those of row r + 8.
using WarpgroupSums = float[64];

/// Returns the description of an operand whose rows hold its terms: the box [rows, 64 terms].
__device__ inline std::uint64_t operand_by_rows(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = (8 * kBoxRowBytes) >> 4;
  return kSwizzle128 | (kEightRows << 32) | (std::uint64_t{1} << 16) | ((address & 0x3FFFF) >> 4);
}
/// Returns the description of an operand [16, 128] whose rows hold columns: two boxes
/// [64 terms, 64 columns], one behind the other.
__device__ inline std::uint64_t operand_by_columns(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = (8 * kBoxRowBytes) >> 4;
  constexpr std::uint64_t kBox = (kBoxElements * kBoxRowBytes) >> 4;
  return kSwizzle128 | (kEightRows << 32) | (kBox << 16) | ((address & 0x3FFFF) >> 4);
}

// clang-format off
#define MSSTREAM_EIGHT_SUMS(b) \
  "+f"(sums[b]), "+f"(sums[b + 1]), "+f"(sums[b + 2]), "+f"(sums[b + 3]), \
  "+f"(sums[b + 4]), "+f"(sums[b + 5]), "+f"(sums[b + 6]), "+f"(sums[b + 7])
#define MSSTREAM_WARPGROUP_PRODUCT(type, by_columns)                                            \
  asm volatile(                                                                                 \
      "{\n"                                                                                     \
      ".reg .pred adds;\n"                                                                      \
      "setp.ne.b32 adds, %66, 0;\n"                                                             \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                              \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "        \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "        \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "       \
      "%64, %65, adds, 1, 1, 0, " by_columns ";\n"                                              \
      "}"                                                                                       \
      : MSSTREAM_EIGHT_SUMS(0), MSSTREAM_EIGHT_SUMS(8), MSSTREAM_EIGHT_SUMS(16),                \
        MSSTREAM_EIGHT_SUMS(24), MSSTREAM_EIGHT_SUMS(32), MSSTREAM_EIGHT_SUMS(40),              \
        MSSTREAM_EIGHT_SUMS(48), MSSTREAM_EIGHT_SUMS(56)                                        \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)))
// clang-format on

/// Starts a product of T = __half or __nv_bfloat16, with `a` by rows, and `b` by columns if
/// `BByColumns`, otherwise by rows [128 columns, terms]. It adds to the sums, or sets them unless
/// `adds`. The sums must not be touched before wait_for_products().
template <class T, bool BByColumns>
__device__ __forceinline__ void start_product(WarpgroupSums& sums,
                                              std::uint64_t a,
                                              std::uint64_t b,
                                              bool adds) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if constexpr (BByColumns) {
      MSSTREAM_WARPGROUP_PRODUCT("bf16", "1");
    } else {
      MSSTREAM_WARPGROUP_PRODUCT("bf16", "0");
    }
  } else {
    if constexpr (BByColumns) {
      MSSTREAM_WARPGROUP_PRODUCT("f16", "1");
    } else {
      MSSTREAM_WARPGROUP_PRODUCT("f16", "0");
    }
  }
}

#undef MSSTREAM_WARPGROUP_PRODUCT
#undef MSSTREAM_EIGHT_SUMS

/// Orders what the warpgroup has done with sums before the products that it starts next.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group of products.
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the last `Running` groups of products are done.
template <int Running>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Running) : "memory");
}
/// Keeps the compiler from moving accesses to the sums before wait_for_products().
__device__ __forceinline__ void hold(WarpgroupSums& sums) {
#pragma unroll
  for (float& sum : sums) {
    asm volatile("" : "+f"(sum)::"memory");
  }
}

}  // namespace msstream::ops::kernels
