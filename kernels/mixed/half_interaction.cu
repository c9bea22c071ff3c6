// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "dense/large_interaction.cuh"
#include "mixed/half_fragments.cuh"
#include "mixed/half_interaction.hpp"
#include "mixed/half_samples.cuh"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

namespace {

// A warp computes a sample, whose vectors it keeps in its part of the shared memory, and meets no
// other warp. The copies of a warp take no registers, so that all its bytes are in flight at once;
// with 27 vectors of 128 a multiprocessor of 228 KiB holds 24 warps or more. Blocks are small and
// many, so that a multiprocessor gets the next one as soon as a sample is done. (Warps that take
// one sample after the other, and copy the next while they compute, are slower: the samples are
// then divided before it is known which multiprocessors the memory serves first.) The matrix of
// products is divided into tiles of 16 x 16, which is what an instruction for matrices reads.

constexpr int kTile = 16;
/// The most tiles of 16 vectors that a sample may have.
constexpr int kMostTiles = 4;
constexpr int kMostWarps = 4;
/// The most shared memory of a block that needs no permission.
constexpr int kMostSharedBytes = 48 * 1024;
/// The shared memory up to which a block takes further warps.
constexpr int kWantedSharedBytes = 8 * 1024;

/// Returns the address from which the calling lane loads its row of a tile of the vectors at the
/// address `vectors`. Rows that do not exist are those of the last vector, which must not enter a
/// sum.
__device__ inline std::uint32_t tile_row(std::uint32_t vectors,
                                         HalfLayout const& layout,
                                         int tile,
                                         int lane) {
  int const vector = min(tile * kTile + lane % kTile, layout.vectors - 1);
  return vectors + vector * layout.stride * 2 + lane / kTile * kChunkBytes;
}
/// Like tile_row(), but for a tile whose registers are those of the transposed one: registers 0 and
/// 1 hold its first eight vectors, 2 and 3 the others.
__device__ inline std::uint32_t tile_column(std::uint32_t vectors,
                                            HalfLayout const& layout,
                                            int tile,
                                            int lane) {
  int const vector = min(tile * kTile + lane % 8 + lane / 16 * 8, layout.vectors - 1);
  return vectors + vector * layout.stride * 2 + lane / 8 % 2 * kChunkBytes;
}

/// The products of vectors: at[i][j] are those of vectors 16 i to 16 i + 15 with vectors 8 j to
/// 8 j + 7, j < 2 i + 2.
template <int kTiles>
struct Products {
  float at[kTiles][2 * kTiles][4] = {};

  /// Computes the products of the vectors, elements of type T, at an address in shared memory.
  template <class T>
  __device__ Products(std::type_identity<T>,
                      std::uint32_t vectors,
                      HalfLayout const& layout,
                      int lane) {
    std::uint32_t lefts[kTiles];
    std::uint32_t rights[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      lefts[tile] = tile_row(vectors, layout, tile, lane);
      rights[tile] = tile_column(vectors, layout, tile, lane);
    }
#pragma unroll 2
    for (int column = 0; column < layout.padded; column += kTile) {
      std::uint32_t left[kTiles][4];
      std::uint32_t right[kTiles][4];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        load_matrices(left[i], lefts[i] + column * 2);
        load_matrices(right[i], rights[i] + column * 2);
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * i + 2; ++j) {
          auto const& tile = right[j / 2];
          multiply_add<T>(at[i][j], left[i], tile[j % 2 * 2], tile[j % 2 * 2 + 1]);
        }
      }
    }
  }

  /// Writes the products of distinct vectors one after the other.
  template <class T>
  __device__ void write(T* to, int vectors, int lane) const {
    int const t2 = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        int const left = i * kTile + lane / 4 + k / 2 * 8;
        auto* const of_left = to + left * (left - 1) / 2 + t2;
        // Products 8 j + c of this row exist for 8 j + c < end.
        int const end = left < vectors ? left - t2 : 0;
#pragma unroll
        for (int j = 0; j < 2 * i + 2; ++j) {
          auto const both = packed<T>(at[i][j][k], at[i][j][k + 1]);
          if (j * 8 < end) {
            of_left[j * 8] = T{static_cast<std::uint16_t>(both)};
          }
          if (j * 8 + 1 < end) {
            of_left[j * 8 + 1] = T{static_cast<std::uint16_t>(both >> 16U)};
          }
        }
      }
    }
  }
};

/// Copies a row in shared memory to any position there, in fours: up to three halves behind the row
/// are copied too.
template <class T>
__device__ void copy_row(T* to, T const* row, int width, int lane) {
#pragma unroll 1
  for (int column = lane * 4; column < width; column += 32 * 4) {
    auto const four = *reinterpret_cast<Pack<T, 4> const*>(row + column);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      to[column + k] = four.lanes[k];
    }
  }
}

__device__ inline std::uint32_t shared_address(void const* memory) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
}
__device__ inline std::int64_t sample_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
}

/// Computes the outputs of a sample. Its shared memory holds the vectors; the outputs overwrite all
/// vectors but the first.
template <class T, int kTiles>
__global__ void __launch_bounds__(kMostWarps * 32)
    half_interaction_kernel(__grid_constant__ InteractionArgsOf<T> const args,
                            __grid_constant__ HalfLayout const layout) {
  extern __shared__ Quad shared_quads[];
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const sample = sample_of_warp();
  if (sample >= args.batch) {
    return;
  }
  auto* const vectors =
      reinterpret_cast<T*>(shared_quads) + threadIdx.x / 32 * layout.sample_halves;
  auto const address = shared_address(vectors);
  begin_to_load(address,
                layout,
                RowPieces(layout, layout.in, lane),
                args.dense + sample * layout.width,
                args.embeddings + sample * (layout.vectors - 1) * layout.width);
  // No copy writes the columns behind the width.
  for (int vector = lane; layout.width < layout.padded && vector < layout.vectors; vector += 32) {
    for (int column = layout.width; column < layout.padded; ++column) {
      vectors[vector * layout.stride + column] = T{0};
    }
  }
  wait_for_copies();

  Products<kTiles> const products(std::type_identity<T>{}, address, layout, lane);
  auto* const to = args.output + sample * layout.outputs;
  ShiftedRow const row(to, layout.outputs);
  auto* const staged = vectors + layout.staged_at;
  __syncwarp();  // all lanes have read the vectors
  copy_row(staged + row.shift, vectors, layout.width, lane);
  __syncwarp();  // the products overwrite the halves behind the copy
  products.write(staged + row.shift + layout.width, layout.vectors, lane);
  __syncwarp();
  store_row(to, staged, row, lane);
}

/// Loads the symmetric matrix of the gradients of the products, with zeros for a vector with itself
/// and for vectors that do not exist: matrix[i][j] is a tile. May read, but does not use, up to 64
/// halves behind `staged` and 8 behind the gradients.
template <class T, int kTiles>
__device__ void load_symmetric(std::uint32_t (&matrix)[kTiles][kTiles][4],
                               T const* staged,
                               T const* of_pairs,
                               int vectors,
                               int lane) {
  int const g = lane / 4;
  int const t2 = lane % 4 * 2;
  std::uint32_t const below_diagonal = (g > t2 ? 0xFFFFU : 0U) | (g > t2 + 1 ? 0xFFFF0000U : 0U);
#pragma unroll
  for (int r = 0; r < 2 * kTiles; ++r) {
    int const a = r * 8 + g;
    bool const exists = a < vectors;
    auto const* const row = exists ? of_pairs + a * (a - 1) / 2 + t2 : staged;
    std::uint32_t const mask = exists ? 0xFFFFFFFFU : 0U;
#pragma unroll
    for (int c = 0; c <= r; ++c) {
      auto const both =
          packed(row[c * 8], row[c * 8 + 1]) & (c == r ? mask & below_diagonal : mask);
      auto const above = transposed(both);
      matrix[r / 2][c / 2][r % 2 + c % 2 * 2] = c == r ? both | above : both;
      if (c < r) {
        matrix[c / 2][r / 2][c % 2 + r % 2 * 2] = above;
      }
    }
  }
}

/// Computes the gradients of the vectors of a sample: the symmetric matrix of the gradients of the
/// products, times the vectors. Its shared memory holds the vectors, then the output gradient; the
/// gradients overwrite the vectors, 16 columns after the other.
template <class T, int kTiles>
__global__ void __launch_bounds__(kMostWarps * 32)
    half_interaction_gradient_kernel(__grid_constant__ InteractionGradientArgsOf<T> const args,
                                     __grid_constant__ HalfLayout const layout) {
  extern __shared__ Quad shared_quads[];
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const sample = sample_of_warp();
  if (sample >= args.batch) {
    return;
  }
  auto* const vectors =
      reinterpret_cast<T*>(shared_quads) + threadIdx.x / 32 * layout.sample_halves;
  auto* const staged = vectors + layout.staged_at;
  auto const address = shared_address(vectors);
  auto const* const from = args.output_gradient + sample * layout.outputs;
  ShiftedRow const row(from, layout.outputs);
  bool const is_inside =
      sample * layout.outputs >= kChunk && (args.batch - 1 - sample) * layout.outputs >= kChunk;
  begin_to_load(address,
                layout,
                RowPieces(layout, layout.in, lane),
                args.dense + sample * layout.width,
                args.embeddings + sample * (layout.vectors - 1) * layout.width);
  begin_to_load_row(address + layout.staged_at * 2, from, row, is_inside, lane);
  wait_for_copies();

  int const g = lane / 4;
  int const t2 = lane % 4 * 2;
  // The halves of this lane's registers of the last tile that belong to vectors: those of rows t2
  // and t2 + 1, then of rows t2 + 8 and t2 + 9.
  auto const existing = [&](int row) {
    int const left = layout.vectors - (kTiles - 1) * kTile - row;
    return left >= 2 ? 0xFFFFFFFFU : left == 1 ? 0x0000FFFFU : 0U;
  };
  std::uint32_t const existing_of_last[2] = {existing(t2), existing(t2 + 8)};
  auto const* const copied = staged + row.shift;
  std::uint32_t matrix[kTiles][kTiles][4];
  load_symmetric(matrix, staged, copied + layout.width, layout.vectors, lane);
  std::uint32_t rows[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    rows[tile] = tile_row(address, layout, tile, lane);
  }
  auto const of_copy = shared_address(copied + t2);
  auto const to = shared_address(vectors + g * layout.stride + t2);
  std::uint32_t const rows_apart = layout.stride * 8 * 2;
#pragma unroll(kTiles <= 2 ? 2 : 1)
  for (int column = 0; column < layout.padded; column += kTile) {
    float sums[kTiles][2][4] = {};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      std::uint32_t tile[4];
      load_transposed(tile, rows[j] + column * 2);
      if (j == kTiles - 1) {
        // Rows that do not exist are 0. Otherwise an infinite element would make all sums NaN,
        // although the matrix has zeros for them.
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          tile[k] &= existing_of_last[k % 2];
        }
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        multiply_add<T>(sums[i][0], matrix[i][j], tile[0], tile[1]);
        multiply_add<T>(sums[i][1], matrix[i][j], tile[2], tile[3]);
      }
    }
    if (g == 0) {  // of the columns behind the width, which nobody reads, the sums are arbitrary
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        auto const at = of_copy + column * 2 + half * kChunkBytes;
        sums[0][half][0] += widen(half_at<T>(at));
        sums[0][half][1] += widen(half_at<T>(at + 2));
      }
    }
    __syncwarp();  // all lanes have read these columns
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        if (i < kTiles - 1 || i * kTile + k / 2 * 8 + g < layout.vectors) {
          auto const row = to + (i * 2 + k / 2) * rows_apart + column * 2;
          store_pair(row, packed<T>(sums[i][0][k], sums[i][0][k + 1]));
          store_pair(row + kChunkBytes, packed<T>(sums[i][1][k], sums[i][1][k + 1]));
        }
      }
    }
  }
  __syncwarp();
  store_vectors(
      Wanted<T>{args.dense_gradient + sample * layout.width, args.dense_gradient != nullptr},
      Wanted<T>{args.embeddings_gradient + sample * (layout.vectors - 1) * layout.width,
                args.embeddings_gradient != nullptr},
      layout,
      RowPieces(layout, layout.out, lane),
      static_cast<T const*>(vectors));
}

/// Returns the widest access, in bytes, that fits all rows of `width` halves at the pointers. Null
/// pointers pass, because they are never accessed.
template <class T>
int access_bytes(std::int64_t width, T const* first, T const* second) {
  auto const all = reinterpret_cast<std::uintptr_t>(first) |
                   reinterpret_cast<std::uintptr_t>(second) |
                   static_cast<std::uintptr_t>(width) * sizeof(T);
  return all % kChunkBytes == 0 ? kChunkBytes : all % 4 == 0 ? 4 : 2;
}

/// Returns whether a row and a tile of vectors are small enough for the kernels, and so every
/// number below for an int. A sample without pairs needs no products.
bool sizes_are_small(std::int64_t features, std::int64_t width) {
  return features > 0 && features < kMostTiles * kTile && width > 0 && width < kMostSharedBytes;
}

/// Returns the layout of a sample without its shared memory.
HalfLayout layout_of(std::int64_t features, std::int64_t width) {
  HalfLayout layout{};
  layout.vectors = static_cast<int>(features + 1);
  layout.width = static_cast<int>(width);
  layout.padded = ceil_div(layout.width, kTile) * kTile;
  layout.stride = layout.padded + kChunk;
  layout.outputs = layout.width + static_cast<int>(pairs_of(features + 1));
  return layout;
}

/// Returns the shared memory of a row of outputs at any position of a chunk, and of `behind` halves
/// behind it, in halves.
int staged_halves(HalfLayout const& layout, int behind) {
  return ceil_div(layout.outputs + kChunk - 1 + behind, kChunk) * kChunk;
}

/// Returns the division of rows into pieces of `bytes` bytes.
PieceLayout pieces_of(HalfLayout const& layout, int bytes) {
  PieceLayout pieces{};
  pieces.halves = bytes / 2;
  pieces.of_row = layout.width / pieces.halves;
  pieces.inverse = (1 << 16) / pieces.of_row + 1;
  pieces.step = 32 % pieces.of_row;
  pieces.step_at = 32 / pieces.of_row * layout.stride + pieces.step * pieces.halves;
  return pieces;
}

bool fits(HalfLayout const& layout) {
  return layout.sample_halves * 2 <= kMostSharedBytes;
}

/// Launches kernel<T, tiles of the vectors>, a warp for each sample.
template <class Args, class Kernels>
void launch(CudaStream stream, Args const& args, HalfLayout const& layout, Kernels const& kernels) {
  int const sample_bytes = layout.sample_halves * 2;
  int const warps = std::clamp(kWantedSharedBytes / sample_bytes, 1, kMostWarps);
  auto const tiles = static_cast<std::size_t>(ceil_div(layout.vectors, kTile));
  kernels[tiles - 1]<<<grid_for(args.batch, warps),
                       static_cast<unsigned>(warps * 32),
                       static_cast<std::size_t>(warps * sample_bytes),
                       stream>>>(args, layout);
}

}  // namespace

template <HalfElement T>
void dot_interaction(CudaStream stream, InteractionArgsOf<T> const& args) {
  if (args.batch == 0 || args.width + pairs_of(args.features + 1) == 0) {
    return;
  }
  if (sizes_are_small(args.features, args.width)) {
    auto layout = layout_of(args.features, args.width);
    layout.staged_at = layout.stride;
    layout.sample_halves = layout.stride + std::max((layout.vectors - 1) * layout.stride,
                                                    staged_halves(layout, kChunk));
    layout.in = pieces_of(layout, access_bytes(args.width, args.dense, args.embeddings));
    if (fits(layout)) {
      constexpr decltype(&half_interaction_kernel<T, 1>) kKernels[kMostTiles] = {
          half_interaction_kernel<T, 1>,
          half_interaction_kernel<T, 2>,
          half_interaction_kernel<T, 3>,
          half_interaction_kernel<T, 4>};
      launch(stream, args, layout, kKernels);
      check_launch("dot_interaction");
      return;
    }
  }
  large_interaction(stream, args);
}

template <HalfElement T>
void dot_interaction_gradient(CudaStream stream, InteractionGradientArgsOf<T> const& args) {
  if (args.batch == 0 || args.width == 0) {
    return;
  }
  if (sizes_are_small(args.features, args.width)) {
    auto layout = layout_of(args.features, args.width);
    // The data that load_symmetric() reads, and a tile of columns behind the copy.
    constexpr int kBehind = 64;
    layout.staged_at = layout.vectors * layout.stride;
    layout.sample_halves = layout.staged_at + staged_halves(layout, kBehind);
    layout.in = pieces_of(layout, access_bytes(args.width, args.dense, args.embeddings));
    layout.out =
        pieces_of(layout, access_bytes(args.width, args.dense_gradient, args.embeddings_gradient));
    if (fits(layout)) {
      constexpr decltype(&half_interaction_gradient_kernel<T, 1>) kKernels[kMostTiles] = {
          half_interaction_gradient_kernel<T, 1>,
          half_interaction_gradient_kernel<T, 2>,
          half_interaction_gradient_kernel<T, 3>,
          half_interaction_gradient_kernel<T, 4>};
      launch(stream, args, layout, kKernels);
      check_launch("dot_interaction_gradient");
      return;
    }
  }
  large_interaction_gradient(stream, args);
}

template void dot_interaction(CudaStream, InteractionArgsOf<float16> const&);
template void dot_interaction(CudaStream, InteractionArgsOf<bfloat16> const&);
template void dot_interaction_gradient(CudaStream, InteractionGradientArgsOf<float16> const&);
template void dot_interaction_gradient(CudaStream, InteractionGradientArgsOf<bfloat16> const&);

}  // namespace msstream::ops::kernels
