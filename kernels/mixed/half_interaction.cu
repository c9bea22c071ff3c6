// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "dense/large_interaction.cuh"
#include "mixed/half_fragments.cuh"
#include "mixed/half_interaction.hpp"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

// A warp computes a sample, whose vectors it keeps in its part of the shared memory, and meets no
// other warp. The copies of a warp take no registers, so that all its bytes are in flight at once;
// with 27 vectors of 128 a multiprocessor of 228 KiB holds 24 warps or more. The matrix of products
// is divided into tiles of 16 x 16, which is what an instruction for matrices reads.

constexpr int kTile = 16;
/// The most tiles of 16 vectors that a sample may have.
constexpr int kMostTiles = 4;
constexpr int kMostWarps = 4;
/// The most shared memory of a block that needs no permission.
constexpr std::int64_t kMostSharedBytes = 48 * 1024;
/// The bytes of the widest access, and the halves that it accesses.
constexpr int kChunkBytes = 16;
constexpr int kChunk = kChunkBytes / 2;

/// The shared memory of a sample, in halves: its vectors in rows of `stride`. The stride is an odd
/// number of chunks of 16 bytes, so that eight consecutive rows are in different banks.
struct HalfLayout {
  int vectors;
  int width;
  int padded;  ///< the width, rounded up to whole tiles
  int stride;
  int outputs;        ///< the number of outputs of a sample
  int sample_halves;  ///< the shared memory of a sample
  int access_in;      ///< the bytes of an access to a row of the inputs: 16, 4 or 2
  int access_out;     ///< the bytes of an access to a row of the gradients
};

template <class T>
__device__ void set_chunk(T* to, T const* from) {
  using Chunk = Pack<T, kChunk>;
  *reinterpret_cast<Chunk*>(to) = *reinterpret_cast<Chunk const*>(from);
}

/// Calls each(vector, first column) for all pieces of `Halves` halves of the vectors of a sample. A
/// vector is accessed by a group of lanes, whose number is a power of two.
template <int Halves, class Each>
__device__ void for_each_piece(HalfLayout const& layout, int lane, Each const& each) {
  int const pieces = layout.width / Halves;
  int const log2_lanes = pieces <= 1 ? 0 : min(32 - __clz(pieces - 1), 5);
  int const lanes = 1 << log2_lanes;
  for (int vector = lane >> log2_lanes; vector < layout.vectors; vector += 32 >> log2_lanes) {
    for (int piece = lane & (lanes - 1); piece < pieces; piece += lanes) {
      each(vector, piece * Halves);
    }
  }
}

/// Begins to copy the vectors of a sample into shared memory.
template <class T, class Args>
__device__ void begin_to_load(
    T* vectors, HalfLayout const& layout, Args const& args, std::int64_t sample, int lane) {
  auto const* const dense = args.dense + sample * layout.width;
  auto const* const embeddings = args.embeddings + sample * (layout.vectors - 1) * layout.width;
  auto const copy = [&]<int kBytes>(std::integral_constant<int, kBytes>) {
    for_each_piece<kBytes / 2>(layout, lane, [&](int vector, int column) {
      auto* const to = vectors + vector * layout.stride + column;
      auto const* const from =
          (vector == 0 ? dense : embeddings + (vector - 1) * layout.width) + column;
      if constexpr (kBytes == 2) {
        *to = *from;
      } else {
        __pipeline_memcpy_async(to, from, kBytes);
      }
    });
  };
  if (layout.access_in == kChunkBytes) {
    copy(std::integral_constant<int, kChunkBytes>());
  } else if (layout.access_in == 4) {
    copy(std::integral_constant<int, 4>());
  } else {
    copy(std::integral_constant<int, 2>());
  }
}

/// Waits until the copies of all lanes have ended.
__device__ inline void wait_for_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
}

/// A row of halves at an address that is no multiple of 16 bytes: `count` halves, of which
/// the first is at position `shift` of its chunk of 16 bytes. Its copy in shared memory begins at
/// the same position of a chunk, so that all whole chunks are moved by one access each.
struct ShiftedRow {
  int shift;
  int count;

  template <class T>
  __device__ ShiftedRow(T const* row, int halves)
      : shift(static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % kChunk)),
        count(halves) {}

  /// Calls each(position) for the whole chunks, of which a lane has every 32nd.
  template <class Each>
  __device__ void for_each_chunk(int lane, Each const& each) const {
    for (int position = (first_chunk() + lane) * kChunk; position < end_of_chunks();
         position += 32 * kChunk) {
      each(position);
    }
  }
  /// Returns the position of the lane's half before or behind the whole chunks, or -1.
  __device__ int edge(int lane) const {
    int const end = shift + count;
    int const head_end = min(first_chunk() * kChunk, end);
    int const tail = max(end_of_chunks(), head_end) + lane - kChunk;
    if (lane < kChunk) {
      return shift + lane < head_end ? shift + lane : -1;
    }
    return tail < end ? tail : -1;
  }

 private:
  __device__ int first_chunk() const { return (shift + kChunk - 1) / kChunk; }
  __device__ int end_of_chunks() const { return (shift + count) / kChunk * kChunk; }
};

/// Returns the address from which the calling lane loads its row of a tile of vectors. Rows that do
/// not exist are those of the last vector, which must not enter a sum.
template <class T>
__device__ T const* tile_row(T const* vectors, HalfLayout const& layout, int tile, int lane) {
  int const vector = min(tile * kTile + lane % kTile, layout.vectors - 1);
  return vectors + vector * layout.stride + lane / kTile * kChunk;
}

/// Computes the outputs of a sample. Its shared memory holds the vectors; the outputs overwrite all
/// vectors but the first.
template <class T, int kTiles>
__global__ void __launch_bounds__(kMostWarps * 32)
    half_interaction_kernel(__grid_constant__ InteractionArgsOf<T> const args,
                            __grid_constant__ HalfLayout const layout) {
  extern __shared__ Quad shared_quads[];
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const warp = static_cast<int>(threadIdx.x) / 32;
  auto const sample = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (sample >= args.batch) {
    return;
  }
  auto* const vectors = reinterpret_cast<T*>(shared_quads) + warp * layout.sample_halves;
  begin_to_load(vectors, layout, args, sample, lane);
  for (int vector = lane; layout.width < layout.padded && vector < layout.vectors; vector += 32) {
    for (int column = layout.width; column < layout.padded; ++column) {
      vectors[vector * layout.stride + column] = T{0};
    }
  }
  wait_for_copies();

  T const* rows[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    rows[tile] = tile_row(vectors, layout, tile, lane);
  }
  // sums[i][j] are the products of vectors 16 i to 16 i + 15 with vectors 8 j to 8 j + 7. The
  // registers of a tile of vectors are at once those of the transposed tile: registers 0 and 2 hold
  // its first eight vectors, 1 and 3 the others.
  float sums[kTiles][2 * kTiles][4] = {};
#pragma unroll 2
  for (int column = 0; column < layout.padded; column += kTile) {
    std::uint32_t tiles[kTiles][4];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      load_matrices(tiles[i], rows[i] + column);
#pragma unroll
      for (int j = 0; j < 2 * i + 2; ++j) {
        multiply_add<T>(sums[i][j], tiles[i], tiles[j / 2][j % 2], tiles[j / 2][j % 2 + 2]);
      }
    }
  }

  __syncwarp();  // all lanes have read the vectors
  auto* const to = args.output + sample * layout.outputs;
  ShiftedRow const row(to, layout.outputs);
  auto* const staged = vectors + layout.stride;
  for (int column = lane; column < layout.width; column += 32) {
    staged[row.shift + column] = vectors[column];
  }
  auto* const products = staged + row.shift + layout.width;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      int const left = i * kTile + lane / 4 + k / 2 * 8;
      auto* const of_left = products + left * (left - 1) / 2;
#pragma unroll
      for (int j = 0; j < 2 * i + 2; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          int const right = j * 8 + lane % 4 * 2 + c;
          if (left < layout.vectors && right < left) {
            of_left[right] = narrowed<T>(sums[i][j][k + c]);
          }
        }
      }
    }
  }
  __syncwarp();
  row.for_each_chunk(
      lane, [&](int position) { set_chunk(to + (position - row.shift), staged + position); });
  if (int const position = row.edge(lane); position >= 0) {
    to[position - row.shift] = staged[position];
  }
}

/// Returns the gradient of the product of two vectors, or 0 for a vector with itself and for
/// vectors that do not exist.
template <class T>
__device__ T gradient_of_pair(T const* gradients, int a, int b, int vectors) {
  int const i = max(a, b);
  return a == b || i >= vectors ? T{0} : gradients[i * (i - 1) / 2 + min(a, b)];
}

/// Stores the vectors in shared memory to the gradients that are wanted.
template <class T>
__device__ void store_gradients(T const* vectors,
                                HalfLayout const& layout,
                                InteractionGradientArgsOf<T> const& args,
                                std::int64_t sample,
                                int lane) {
  auto const store = [&]<int kHalves>(std::integral_constant<int, kHalves>) {
    for_each_piece<kHalves>(layout, lane, [&](int vector, int column) {
      using Piece = Pack<T, kHalves>;
      T* const of_all = vector == 0 ? args.dense_gradient : args.embeddings_gradient;
      auto const row = vector == 0 ? sample : sample * (layout.vectors - 1) + vector - 1;
      if (of_all != nullptr) {
        *reinterpret_cast<Piece*>(of_all + row * layout.width + column) =
            *reinterpret_cast<Piece const*>(vectors + vector * layout.stride + column);
      }
    });
  };
  if (layout.access_out == kChunkBytes) {
    store(std::integral_constant<int, kChunk>());
  } else if (layout.access_out == 4) {
    store(std::integral_constant<int, 2>());
  } else {
    store(std::integral_constant<int, 1>());
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
  int const warp = static_cast<int>(threadIdx.x) / 32;
  auto const sample = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (sample >= args.batch) {
    return;
  }
  auto* const vectors = reinterpret_cast<T*>(shared_quads) + warp * layout.sample_halves;
  auto* const staged = vectors + layout.vectors * layout.stride;
  auto const* const from = args.output_gradient + sample * layout.outputs;
  ShiftedRow const row(from, layout.outputs);
  int const edge = row.edge(lane);
  T const at_edge = edge >= 0 ? from[edge - row.shift] : T{0};
  row.for_each_chunk(lane, [&](int position) {
    __pipeline_memcpy_async(staged + position, from + (position - row.shift), kChunkBytes);
  });
  begin_to_load(vectors, layout, args, sample, lane);
  if (edge >= 0) {
    staged[edge] = at_edge;
  }
  wait_for_copies();

  int const g = lane / 4;
  int const t2 = lane % 4 * 2;
  auto const* const copied = staged + row.shift;
  auto const* const of_pairs = copied + layout.width;
  std::uint32_t matrix[kTiles][kTiles][4];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        int const a = i * kTile + g + k % 2 * 8;
        int const b = j * kTile + t2 + k / 2 * 8;
        matrix[i][j][k] = packed(gradient_of_pair(of_pairs, a, b, layout.vectors),
                                 gradient_of_pair(of_pairs, a, b + 1, layout.vectors));
      }
    }
  }
  T const* rows[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    rows[tile] = tile_row(vectors, layout, tile, lane);
  }
  // The halves of this lane's registers of the last tile that belong to vectors: those of rows t2
  // and t2 + 1, then of rows t2 + 8 and t2 + 9.
  auto const existing = [&](int row) {
    int const left = layout.vectors - (kTiles - 1) * kTile - row;
    return left >= 2 ? 0xFFFFFFFFU : left == 1 ? 0x0000FFFFU : 0U;
  };
  std::uint32_t const existing_of_last[2] = {existing(t2), existing(t2 + 8)};
  for (int column = 0; column < layout.padded; column += kTile) {
    float sums[kTiles][2][4] = {};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      std::uint32_t tile[4];
      load_transposed(tile, rows[j] + column);
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
    __syncwarp();  // all lanes have read these columns
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const at = column + half * 8 + t2;
      if (g == 0) {
        sums[0][half][0] += at < layout.width ? widen(copied[at]) : 0.0F;
        sums[0][half][1] += at + 1 < layout.width ? widen(copied[at + 1]) : 0.0F;
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
          if (int const vector = i * kTile + g + k / 2 * 8; vector < layout.vectors) {
            *reinterpret_cast<std::uint32_t*>(vectors + vector * layout.stride + at) =
                packed(narrowed<T>(sums[i][half][k]), narrowed<T>(sums[i][half][k + 1]));
          }
        }
      }
    }
  }
  __syncwarp();
  store_gradients(vectors, layout, args, sample, lane);
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

/// Returns the shared memory of a row at any position of a chunk, in halves.
int staged_halves(HalfLayout const& layout) {
  return ceil_div(layout.outputs + kChunk - 1, kChunk) * kChunk;
}

bool fits(HalfLayout const& layout) {
  return layout.sample_halves * std::int64_t{2} <= kMostSharedBytes;
}

/// Launches kernel<T, tiles of the vectors>, a warp for each sample.
template <class Args, class Kernels>
void launch(CudaStream stream, Args const& args, HalfLayout const& layout, Kernels const& kernels) {
  auto const sample_bytes = layout.sample_halves * std::int64_t{2};
  auto const warps = std::min<std::int64_t>(kMostSharedBytes / sample_bytes, kMostWarps);
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
    auto const overwritten = (layout.vectors - 1) * layout.stride;
    layout.sample_halves = layout.stride + std::max(overwritten, staged_halves(layout));
    layout.access_in = access_bytes(args.width, args.dense, args.embeddings);
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
    layout.sample_halves = layout.vectors * layout.stride + staged_halves(layout);
    layout.access_in = access_bytes(args.width, args.dense, args.embeddings);
    layout.access_out = access_bytes(args.width, args.dense_gradient, args.embeddings_gradient);
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
