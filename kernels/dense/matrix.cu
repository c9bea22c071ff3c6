// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "dense/matrix.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

namespace {

constexpr int kTile = 32;
// The thread rows of a block; each thread transposes four elements of a tile.
constexpr int kTileRows = 8;

static_assert(kTile * kTileRows == kBlockThreads && kTile == 4 * kTileRows, "a Quad a thread");

/// The position of a 32 x 32 tile in a batch of matrices. Tiles are numbered across a matrix, then
/// down, then by matrix.
struct TilePlace {
  std::int64_t matrix;  ///< index of the first element of the tile's matrix
  std::int64_t left;
  std::int64_t top;
  bool exists;
};
__device__ inline TilePlace place_of_tile(TransposeArgs const& args, std::int64_t tile) {
  std::int64_t const tiles_across = ceil_div<std::int64_t>(args.columns, kTile);
  std::int64_t const tiles_down = ceil_div<std::int64_t>(args.rows, kTile);
  std::int64_t const band = tile / tiles_across;
  std::int64_t const matrix = band / tiles_down;
  return {matrix * args.rows * args.columns,
          (tile - band * tiles_across) * kTile,
          (band - matrix * tiles_down) * kTile,
          matrix < args.batch};
}

/// Transposes `Tiles` tiles of 32 by 32 elements in each block: reads rows of the input and writes
/// rows of the transposed matrix. A tile has a padding column in shared memory, which puts the
/// elements of a column into different banks.
template <int Tiles>
__global__ void __launch_bounds__(kBlockThreads)
    transpose_kernel(__grid_constant__ TransposeArgs const args) {
  __shared__ float tiles[Tiles][kTile][kTile + 1];
  TilePlace places[Tiles];
  float values[Tiles][kTile / kTileRows] = {};
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    auto const& place = places[t] =
        place_of_tile(args, static_cast<std::int64_t>(blockIdx.x) * Tiles + t);
    std::int64_t const column = place.left + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kTile / kTileRows; ++k) {
      std::int64_t const row = place.top + threadIdx.y + k * kTileRows;
      if (place.exists && row < args.rows && column < args.columns) {
        values[t][k] = args.input[place.matrix + row * args.columns + column];
      }
    }
  }
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
#pragma unroll
    for (int k = 0; k < kTile / kTileRows; ++k) {
      tiles[t][threadIdx.y + k * kTileRows][threadIdx.x] = values[t][k];
    }
  }
  __syncthreads();
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    auto const& place = places[t];
    std::int64_t const row = place.top + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kTile / kTileRows; ++k) {
      std::int64_t const across = place.left + threadIdx.y + k * kTileRows;
      if (place.exists && row < args.rows && across < args.columns) {
        args.output[place.matrix + across * args.rows + row] =
            tiles[t][threadIdx.x][threadIdx.y + k * kTileRows];
      }
    }
  }
}

/// Adds `factor` to the diagonal elements of a square matrix, which are width + 1 elements apart in
/// memory.
template <int Quads>
__global__ void __launch_bounds__(kBlockThreads)
    add_identity_kernel(__grid_constant__ AddIdentityArgs const args, bool aligned) {
  auto const place = grid_place<Quads>(args.width * args.width, aligned);
  if (!place.exists()) {
    return;
  }
  auto values = place.load(args.input);
  std::int64_t const step = args.width + 1;
#pragma unroll
  for (int quad = 0; quad < Quads; ++quad) {
    // The distance to the last diagonal element.
    std::int64_t const behind = place.element(4 * quad) % step;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      auto const at = behind + lane;  // step >= 2: at most two of four neighbours are diagonal
      if (at == 0 || at == step || at == 2 * step) {
        values.lanes[4 * quad + lane] += args.factor;
      }
    }
  }
  place.store(args.output, values);
}

}  // namespace

void transpose(CudaStream stream, TransposeArgs const& args) {
  auto const tiles = args.batch * ceil_div<std::int64_t>(args.rows, kTile) *
                     ceil_div<std::int64_t>(args.columns, kTile);
  if (tiles == 0) {
    return;
  }
  with_quads_a_thread(tiles * kTile * kTile, [&](auto tiles_a_block, unsigned blocks) {
    transpose_kernel<tiles_a_block.value>
        <<<blocks, dim3(kTile, kTileRows), 0, stream.handle>>>(args);
  });
  check_launch("transpose");
}

void add_identity(CudaStream stream, AddIdentityArgs const& args) {
  auto const count = args.width * args.width;
  if (count == 0) {
    return;
  }
  bool const aligned = quads_fit(args.input, args.output);
  with_quads_a_thread(count, [&](auto quads, unsigned blocks) {
    add_identity_kernel<quads.value><<<blocks, kBlockThreads, 0, stream.handle>>>(args, aligned);
  });
  check_launch("add_identity");
}

}  // namespace msstream::ops::kernels
