// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "elementwise_pack.cuh"

#include <msstream/ops/kernels/matrix.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of threads: each moves four elements

/// A block a tile of 32 by 32: read by rows, written by rows of the transposed matrix. The column
/// of padding puts the elements of a tile's column into banks of their own.
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(__grid_constant__ TransposeArgs const args) {
  __shared__ float tile[kTile][kTile + 1];
  std::int64_t const tiles_across = ceil_div<std::int64_t>(args.columns, kTile);
  std::int64_t const tiles_down = ceil_div<std::int64_t>(args.rows, kTile);
  std::int64_t const band = blockIdx.x / tiles_across;
  std::int64_t const matrix = band / tiles_down;
  std::int64_t const left = (blockIdx.x - band * tiles_across) * kTile;
  std::int64_t const top = (band - matrix * tiles_down) * kTile;
  float const* const from = args.input + matrix * args.rows * args.columns;
  float* const to = args.output + matrix * args.rows * args.columns;

  std::int64_t const column = left + threadIdx.x;
#pragma unroll
  for (int step = 0; step < kTile; step += kTileRows) {
    std::int64_t const row = top + threadIdx.y + step;
    if (row < args.rows && column < args.columns) {
      tile[threadIdx.y + step][threadIdx.x] = from[row * args.columns + column];
    }
  }
  __syncthreads();
  std::int64_t const row = top + threadIdx.x;
#pragma unroll
  for (int step = 0; step < kTile; step += kTileRows) {
    std::int64_t const across = left + threadIdx.y + step;
    if (row < args.rows && across < args.columns) {
      to[across * args.rows + row] = tile[threadIdx.x][threadIdx.y + step];
    }
  }
}

/// The elements of the diagonal are width + 1 apart.
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
    std::int64_t const behind = place.element(4 * quad) % step;  // since a diagonal element
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      auto const at = behind + lane;  // steps are at least 2: four lanes meet up to two of them
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
  transpose_kernel<<<grid_for(tiles, 1), dim3(kTile, kTileRows), 0, stream.handle>>>(args);
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
