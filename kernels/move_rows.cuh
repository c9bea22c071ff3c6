// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Rows of bytes that change their places.
namespace msstream::ops::kernels {

inline constexpr int kMoveThreads = 256;
inline constexpr int kRowsInFlight = 4;  ///< that a lane asks for before it uses the first
/// Launches of fewer blocks do not fill a large GPU: there a group has one row.
inline constexpr std::int64_t kFewMoveBlocks = 264;
inline constexpr std::int64_t kMostColumnBlocks = 64;

struct RowMove {
  std::int64_t from;  ///< below 0: the fill
  std::int64_t to;    ///< below 0: nothing is written
};

/// 16 bytes that repeat one element.
struct RowFill {
  uint4 bytes = {};

  RowFill() = default;
  RowFill(std::uint64_t element_bits, std::size_t element_bytes) {
    for (auto filled = element_bytes; filled < sizeof(element_bits); filled *= 2) {
      element_bits |= element_bits << (8 * filled);
    }
    auto const low = static_cast<unsigned>(element_bits);
    auto const high = static_cast<unsigned>(element_bits >> 32U);
    bytes = {low, high, low, high};
  }

  template <class Vector>
  __device__ Vector as() const {
    Vector vector;
    memcpy(&vector, &bytes, sizeof(Vector));
    return vector;
  }
};

/// How the lanes of a warp share rows: a power of two of them a row, a vector each, and on by their
/// number where the row is longer.
struct MoveLanes {
  std::int64_t vectors;  ///< of a row
  int log2_lanes = 0;

  explicit MoveLanes(std::int64_t vectors_a_row) : vectors(vectors_a_row) {
    while (log2_lanes < 5 && (std::int64_t{1} << log2_lanes) < vectors) {
      ++log2_lanes;
    }
  }
  __host__ __device__ int lanes() const { return 1 << log2_lanes; }
  __host__ __device__ int groups() const { return kMoveThreads >> log2_lanes; }
};

/// What tells a block its moves: `moves`, or what they give for a range that all threads of the
/// block ask for together.
template <class Moves>
__device__ auto moves_within(Moves const& moves, std::int64_t begin, std::int64_t end) {
  if constexpr (requires { moves.within(begin, end); }) {
    return moves.within(begin, end);
  } else {
    return moves;
  }
}

/// Moves rows as `moves.at(i)` says for i < moves.count(), both on the device. The rows of a block
/// are neighbours, those of a group `groups()` apart; long rows are shared by the grid's columns.
template <class Vector, int InFlight, class Moves>
__global__ void __launch_bounds__(kMoveThreads)
    move_rows_kernel(Moves moves, MoveLanes shape, Vector const* from, Vector* to, RowFill fill) {
  int const lane = static_cast<int>(threadIdx.x) & (shape.lanes() - 1);
  auto const begin = std::int64_t{blockIdx.x} * (shape.groups() * InFlight);
  auto const first = begin + (threadIdx.x >> shape.log2_lanes);
  auto const count = moves.count();
  auto const of_block = moves_within(moves, begin, min(begin + shape.groups() * InFlight, count));
  RowMove rows[InFlight];
#pragma unroll
  for (int k = 0; k < InFlight; ++k) {
    auto const i = first + k * shape.groups();
    rows[k] = i < count ? of_block.at(i) : RowMove{-1, -1};
  }
  auto const step = std::int64_t{shape.lanes()} * gridDim.y;
  for (auto column = std::int64_t{blockIdx.y} * shape.lanes() + lane; column < shape.vectors;
       column += step) {
    Vector held[InFlight];
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      held[k] = rows[k].from >= 0 && rows[k].to >= 0
                    ? __ldg(from + rows[k].from * shape.vectors + column)
                    : fill.as<Vector>();
    }
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      if (rows[k].to >= 0) {
        to[rows[k].to * shape.vectors + column] = held[k];
      }
    }
  }
}

template <class Vector, class Moves>
void move_rows_by(CudaStream stream,
                  Moves const& moves,
                  std::int64_t capacity,
                  std::int64_t row_bytes,
                  void const* from,
                  void* to,
                  RowFill const& fill) {
  MoveLanes const shape(row_bytes / static_cast<std::int64_t>(sizeof(Vector)));
  auto const columns = static_cast<unsigned>(
      std::min(ceil_div<std::int64_t>(shape.vectors, shape.lanes()), kMostColumnBlocks));
  auto const* const source = static_cast<Vector const*>(from);
  auto* const target = static_cast<Vector*>(to);
  auto const rows_a_block = std::int64_t{shape.groups()} * kRowsInFlight;
  if (ceil_div(capacity, rows_a_block) * columns < kFewMoveBlocks) {
    dim3 const grid(grid_for(capacity, shape.groups()), columns);
    move_rows_kernel<Vector, 1>
        <<<grid, kMoveThreads, 0, stream>>>(moves, shape, source, target, fill);
  } else {
    dim3 const grid(grid_for(capacity, rows_a_block), columns);
    move_rows_kernel<Vector, kRowsInFlight>
        <<<grid, kMoveThreads, 0, stream>>>(moves, shape, source, target, fill);
  }
}

/// For at most `capacity` moves, by the widest vectors that the rows allow.
template <class Moves>
void move_rows(CudaStream stream,
               char const* name,
               Moves const& moves,
               std::int64_t capacity,
               std::int64_t row_bytes,
               void const* from,
               void* to,
               RowFill const& fill = {}) {
  if (capacity == 0 || row_bytes == 0) {
    return;
  }
  auto const bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                    static_cast<std::uintptr_t>(row_bytes);
  auto const by = [&]<class Vector>(Vector) {
    move_rows_by<Vector>(stream, moves, capacity, row_bytes, from, to, fill);
  };
  if (bits % 16 == 0) {
    by(uint4{});
  } else if (bits % 8 == 0) {
    by(uint2{});
  } else if (bits % 4 == 0) {
    by(unsigned{});
  } else if (bits % 2 == 0) {
    by(static_cast<unsigned short>(0));
  } else {
    by(static_cast<unsigned char>(0));
  }
  check_launch(name);
}

}  // namespace msstream::ops::kernels
