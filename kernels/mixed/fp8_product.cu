// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "dense/product.hpp"
#include "elementwise/math.hpp"
#include "mixed/fp8_product.hpp"
#include "mixed/half_fragments.cuh"
#include "mixed/quantise.hpp"

#include <cuda_fp8.h>

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Returns activation(sum + bias[column]) as a T. `bias` may be null.
template <class T>
__device__ T finished(float sum, void const* bias, std::int64_t column, Activation activation) {
  sum += bias != nullptr ? widen(static_cast<T const*>(bias)[column]) : 0.0F;
  return narrowed<T>(activation == Activation::relu ? rectify(sum) : sum);
}

/// Adds the bias to sums whose rows are `pitch` apart, applies the activation, and packs the
/// results. The sums may be the results if both are packed.
template <class Sum, class T>
__global__ void __launch_bounds__(kBlockThreads)
    finish_kernel(__grid_constant__ Fp8ProductArgs const args,
                  Sum const* sums,
                  std::int64_t pitch) {
  auto const i = grid_thread();
  auto const row = i / args.columns;
  if (row >= args.rows) {
    return;
  }
  auto const column = i - row * args.columns;
  static_cast<T*>(args.result)[i] =
      finished<T>(widen(sums[row * pitch + column]), args.bias, column, args.activation);
}

template <class Sum, class T>
void finish(CudaStream stream, Fp8ProductArgs const& args, void const* sums, std::int64_t pitch) {
  finish_kernel<Sum, T>
      <<<grid_for(args.rows * args.columns, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
          args, static_cast<Sum const*>(sums), pitch);
  check_launch("fp8_product (bias and activation)");
}

[[nodiscard]] cublasLtEpilogue_t epilogue_of(Fp8ProductArgs const& args) {
  bool const relu = args.activation == Activation::relu;
  if (args.bias == nullptr) {
    return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  }
  return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

/// Computes the product by cuBLASLt and returns true, or returns false if it offers none. If the
/// columns are no multiple of kFp8Multiple, the product of the padded matrices is computed in the
/// workspace, in float32.
bool product_of_blas(CudaStream stream, Fp8ProductArgs const& args) {
  bool const is_packed = args.columns % kFp8Multiple == 0;
  auto const columns = padded_to_fp8(args.columns);
  auto const epilogue = epilogue_of(args);
  MatrixProduct product{.a = args.right.codes,
                        .b = args.left.codes,
                        .d = is_packed ? args.result : args.workspace,
                        .m = columns,
                        .n = args.rows,
                        .k = padded_to_fp8(args.inner),
                        .transpose_a = CUBLAS_OP_T,
                        .epilogue = epilogue,
                        .bias = args.bias,
                        .result = is_packed ? args.dtype : DType::float32,
                        .fp8 = Fp8Operands{.a = args.right.format,
                                           .b = args.left.format,
                                           .scale_a = args.right.scales + kFp8Inverse,
                                           .scale_b = args.left.scales + kFp8Inverse}};
  // Beside a result of float32, cuBLASLt takes a bias of bfloat16 only.
  bool const may_fuse = is_packed && (args.bias == nullptr || args.dtype != DType::float32);
  if (may_fuse && try_product(stream, product)) {
    return true;
  }
  product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  product.bias = nullptr;
  if (!try_product(stream, product)) {
    return false;
  }
  with_real_type("fp8_product: a result", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (is_packed) {
      finish<T, T>(stream, args, args.result, args.columns);
    } else {
      finish<float, T>(stream, args, args.workspace, columns);
    }
  });
  return true;
}

constexpr int kTile = 64;       // rows and columns of the result that a block computes
constexpr int kInnerTile = 32;  // terms between two loads
constexpr int kTileThreads = 128;
constexpr int kPitch = kInnerTile + 8;  // of float16; rows then begin in different banks
constexpr int kChunk = 16;              // bytes that a thread loads at once
static_assert(kTile * kInnerTile == kTileThreads * kChunk, "a chunk a thread");

/// Returns two codes, the first in the lower byte, as two numbers of float16, the first in the
/// lower half.
__device__ std::uint32_t to_halves(unsigned codes, Fp8Format format) {
  auto const both = static_cast<__nv_fp8x2_storage_t>(codes);
  auto const halves = format == Fp8Format::e4m3 ? __nv_cvt_fp8x2_to_halfraw2(both, __NV_E4M3)
                                                : __nv_cvt_fp8x2_to_halfraw2(both, __NV_E5M2);
  return halves.x | static_cast<std::uint32_t>(halves.y) << 16U;
}

/// Loads a tile of 64 rows and 32 columns to shared memory as float16, with zeros behind the end of
/// the matrix. The padding of a row to a multiple of 16 is read, too.
__device__ void load_tile(float16 (&tile)[kTile][kPitch],
                          Fp8Matrix const& matrix,
                          std::int64_t rows,
                          std::int64_t pitch,
                          std::int64_t first_row,
                          std::int64_t first_column) {
  int const in_tile = static_cast<int>(threadIdx.x) / 2;
  int const in_row = static_cast<int>(threadIdx.x) % 2 * kChunk;
  auto const row = first_row + in_tile;
  auto const column = first_column + in_row;
  uint4 codes{};
  if (row < rows && column < pitch) {
    codes = *reinterpret_cast<uint4 const*>(matrix.codes + row * pitch + column);
  }
  auto const halves_of = [&](unsigned quad) {
    return make_uint2(to_halves(quad & 0xFFFFU, matrix.format),
                      to_halves(quad >> 16U, matrix.format));
  };
  auto const a = halves_of(codes.x);
  auto const b = halves_of(codes.y);
  auto const c = halves_of(codes.z);
  auto const d = halves_of(codes.w);
  auto* const to = reinterpret_cast<uint4*>(&tile[in_tile][in_row]);
  to[0] = make_uint4(a.x, a.y, b.x, b.y);
  to[1] = make_uint4(c.x, c.y, d.x, d.y);
}

/// Computes a tile of 64 x 64 results with float16 on the tensor cores, 32 x 32 of them in each of
/// four warps.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    product_of_halves_kernel(__grid_constant__ Fp8ProductArgs const args) {
  __shared__ alignas(16) float16 left[kTile][kPitch];
  __shared__ alignas(16) float16 right[kTile][kPitch];
  auto const across = ceil_div<std::int64_t>(args.columns, kTile);
  std::int64_t const tile_row = blockIdx.x / across;
  std::int64_t const top = tile_row * kTile;
  std::int64_t const first_column = (blockIdx.x - tile_row * across) * kTile;
  auto const pitch = padded_to_fp8(args.inner);
  int const warp = static_cast<int>(threadIdx.x) / 32;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const warp_row = warp / 2 * 32;
  int const warp_column = warp % 2 * 32;
  // Lane l gives the address of row l % 8 of the 8 x 8 matrix l / 8.
  int const in_matrix = lane % 8;
  int const matrix = lane / 8;
  float sums[2][4][4] = {};
  for (std::int64_t inner = 0; inner < pitch; inner += kInnerTile) {
    load_tile(left, args.left, args.rows, pitch, top, inner);
    load_tile(right, args.right, args.columns, pitch, first_column, inner);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kInnerTile; k += 16) {
      std::uint32_t a[2][4];
      std::uint32_t b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_matrices(a[i],
                      &left[warp_row + 16 * i + matrix % 2 * 8 + in_matrix][k + matrix / 2 * 8]);
        load_matrices(
            b[i], &right[warp_column + 16 * i + matrix / 2 * 8 + in_matrix][k + matrix % 2 * 8]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          multiply_add<float16>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    __syncthreads();
  }
  auto const factor = fp8_factor(args.left.scales[kFp8Inverse], args.right.scales[kFp8Inverse]);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        auto const row = top + warp_row + 16 * i + k / 2 * 8 + lane / 4;
        auto const column = first_column + warp_column + 8 * j + lane % 4 * 2 + k % 2;
        if (row < args.rows && column < args.columns) {
          static_cast<T*>(args.result)[row * args.columns + column] =
              finished<T>(factor.times(sums[i][j][k]), args.bias, column, args.activation);
        }
      }
    }
  }
}

}  // namespace

std::size_t fp8_product_workspace_bytes(CudaStream, Fp8ProductArgs const& args) {
  bool const is_packed = args.columns % kFp8Multiple == 0;
  return is_packed
             ? 0
             : static_cast<std::size_t>(args.rows * padded_to_fp8(args.columns)) * sizeof(float);
}

void fp8_product(CudaStream stream, Fp8ProductArgs const& args) {
  if (args.rows == 0 || args.columns == 0) {
    return;
  }
  if (args.inner > 0 && !args.uses_float16 && product_of_blas(stream, args)) {
    return;
  }
  auto const tiles =
      ceil_div<std::int64_t>(args.rows, kTile) * ceil_div<std::int64_t>(args.columns, kTile);
  with_real_type("fp8_product: a result", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    product_of_halves_kernel<T><<<grid_for(tiles, 1), kTileThreads, 0, stream.handle>>>(args);
  });
  check_launch("fp8_product (float16)");
}

}  // namespace msstream::ops::kernels
