// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "common/warp_reduce.cuh"
#include "mixed/quantise.hpp"

#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kWarpThreads = 32;
constexpr std::uint32_t kInfinity = 0x7F800000U;  // as the bits of a float
constexpr int kQuadsOfSearch = 4;
constexpr std::int64_t kMostSearchBlocks = 1024;

/// Raises *largest, which is at first 0, to the largest magnitude of the finite elements of an
/// array. Magnitudes are compared as integers, which have the order of their floats, so that the
/// result does not depend on the order of the blocks.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    largest_finite_kernel(T const* array, std::int64_t count, bool aligned, unsigned* largest) {
  __shared__ unsigned of_warps[kBlockThreads / kWarpThreads];
  constexpr std::int64_t kQuadsOfBlock = kQuadsOfSearch * kBlockThreads;
  unsigned found = 0;
  for (std::int64_t first = blockIdx.x * kQuadsOfBlock; 4 * first < count;
       first += gridDim.x * kQuadsOfBlock) {
    QuadPlace<kQuadsOfSearch> const place(first + threadIdx.x, count, aligned);
    auto const values = place.load(array);
#pragma unroll
    for (int lane = 0; lane < place.kLanes; ++lane) {
      unsigned const magnitude = __float_as_uint(values.lanes[lane]) & 0x7FFFFFFFU;
      found = max(found, magnitude < kInfinity ? magnitude : 0U);
    }
  }
  found = warp_max(found);
  if (threadIdx.x % kWarpThreads == 0) {
    of_warps[threadIdx.x / kWarpThreads] = found;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned const of_warp : of_warps) {
      found = max(found, of_warp);
    }
    if (found > 0) {
      atomicMax(largest, found);
    }
  }
}

constexpr int kTile = 64;
constexpr int kTileQuads = kTile / 4;  // the threads that share a row of a tile
constexpr int kTileRows = kBlockThreads / kTileQuads;
static_assert(kTileQuads * kTileRows == kBlockThreads && kTile % kTileRows == 0);

/// Returns the codes of four numbers, the first in the lowest byte, as to_fp8() gives them.
__device__ std::uint32_t to_fp8_quad(float (&values)[4], float scale, Fp8Format format) {
#pragma unroll
  for (float& value : values) {
    bool const is_finite = (__float_as_uint(value) & 0x7FFFFFFFU) < kInfinity;
    value = is_finite ? value * scale : __uint_as_float(0x7FFFFFFFU);
  }
  auto const low = make_float2(values[0], values[1]);
  auto const high = make_float2(values[2], values[3]);
  std::uint32_t const low_codes = format == Fp8Format::e4m3
                                      ? __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3)
                                      : __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E5M2);
  std::uint32_t const high_codes = format == Fp8Format::e4m3
                                       ? __nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3)
                                       : __nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E5M2);
  return low_codes | high_codes << 16U;
}

/// Loads four neighbouring elements of a row; those behind the end of the matrix are zeros.
template <class T>
__device__ void load_quad(float (&values)[4],
                          QuantiseArgs const& args,
                          std::int64_t row,
                          std::int64_t column,
                          bool aligned) {
  T const* const from = static_cast<T const*>(args.matrix) + row * args.columns + column;
  if (aligned && row < args.rows && column < args.columns) {
    auto const quad = *reinterpret_cast<Pack<T, 4> const*>(from);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      values[k] = widen(quad.lanes[k]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    values[k] = row < args.rows && column + k < args.columns ? widen(from[k]) : 0.0F;
  }
}

/// Quantises a tile of 64 x 64 elements a block. A thread reads four elements of a row at a time,
/// and writes four codes of a row of either copy. A row of the tile in shared memory has four bytes
/// more than its codes, so that the threads of a warp read a column from different banks, two
/// threads from each.
///
/// `aligned`: the number of columns is a multiple of four, and rows begin at multiples of the size
/// of four elements.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    quantise_kernel(__grid_constant__ QuantiseArgs const args, bool aligned) {
  constexpr int kPitch = kTileQuads + 1;  // in words
  __shared__ std::uint32_t tile[kTile * kPitch];
  auto const scale = fp8_scale(args.scales[kFp8Largest], args.format);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.scales[kFp8Inverse] = scale.inverse;
  }
  auto const padded_rows = padded_to_fp8(args.rows);
  auto const padded_columns = padded_to_fp8(args.columns);
  auto const across = max(ceil_div<std::int64_t>(padded_columns, kTile), std::int64_t{1});
  std::int64_t const tile_row = blockIdx.x / across;
  std::int64_t const top = tile_row * kTile;
  std::int64_t const left = (blockIdx.x - tile_row * across) * kTile;
  int const quad = static_cast<int>(threadIdx.x) % kTileQuads;
  int const first_row = static_cast<int>(threadIdx.x) / kTileQuads;
#pragma unroll
  for (int in_tile = first_row; in_tile < kTile; in_tile += kTileRows) {
    auto const row = top + in_tile;
    auto const column = left + 4 * quad;
    float values[4];
    load_quad<T>(values, args, row, column, aligned);
    auto const codes = to_fp8_quad(values, scale.scale, args.format);
    if (args.plain != nullptr && row < padded_rows && column < padded_columns) {
      *reinterpret_cast<std::uint32_t*>(args.plain + row * padded_columns + column) = codes;
    }
    tile[in_tile * kPitch + quad] = codes;
  }
  if (args.transposed == nullptr) {
    return;
  }
  __syncthreads();
  auto const* const bytes = reinterpret_cast<std::uint8_t const*>(tile);
#pragma unroll
  for (int in_tile = first_row; in_tile < kTile; in_tile += kTileRows) {
    auto const column = left + in_tile;
    auto const row = top + 4 * quad;
    std::uint32_t codes = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      codes |= static_cast<std::uint32_t>(bytes[(4 * quad + k) * (4 * kPitch) + in_tile])
               << (8 * k);
    }
    if (column < padded_columns && row < padded_rows) {
      *reinterpret_cast<std::uint32_t*>(args.transposed + column * padded_rows + row) = codes;
    }
  }
}

template <class T>
void quantise_as(CudaStream stream, QuantiseArgs const& args) {
  auto const* const matrix = static_cast<T const*>(args.matrix);
  auto const count = args.rows * args.columns;
  bool const aligned = reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Pack<T, 4>) == 0;
  auto* const largest = args.scales + kFp8Largest;
  set_to_zero(stream, largest, 1);
  if (count > 0) {
    auto const pieces =
        ceil_div<std::int64_t>(count, std::int64_t{4} * kQuadsOfSearch * kBlockThreads);
    largest_finite_kernel<T>
        <<<grid_for(std::min(pieces, kMostSearchBlocks), 1), kBlockThreads, 0, stream.handle>>>(
            matrix, count, aligned, reinterpret_cast<unsigned*>(largest));
    check_launch("quantise (largest magnitude)");
  }
  auto const tiles = ceil_div<std::int64_t>(padded_to_fp8(args.rows), kTile) *
                     ceil_div<std::int64_t>(padded_to_fp8(args.columns), kTile);
  quantise_kernel<T>
      <<<grid_for(std::max<std::int64_t>(tiles, 1), 1), kBlockThreads, 0, stream.handle>>>(
          args, aligned && args.columns % 4 == 0);
  check_launch("quantise");
}

}  // namespace

void quantise(CudaStream stream, QuantiseArgs const& args) {
  with_real_type("quantise: a matrix", args.dtype, [&](auto type) {
    quantise_as<typename decltype(type)::type>(stream, args);
  });
}

}  // namespace msstream::ops::kernels
