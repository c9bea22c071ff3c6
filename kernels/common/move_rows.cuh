// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Kernels that copy rows of bytes to other row indices.
namespace msstream::ops::kernels {

inline constexpr int kMoveThreads = 256;
inline constexpr int kRowsInFlight = 4;  ///< rows that a lane loads before it stores the first
/// The number of thread blocks that fills a large GPU. If a launch of the row-copying kernel would
/// have fewer blocks, each group of lanes copies one row instead of kRowsInFlight rows.
inline constexpr std::int64_t kFewMoveBlocks = 264;
inline constexpr std::int64_t kMostColumnBlocks = 64;

struct RowMove {
  std::int64_t from;  ///< the row to read; if negative, the fill pattern is written instead
  std::int64_t to;    ///< the row to write; if negative, nothing is written
};

/// A pattern of 16 bytes that repeats one element, to fill rows that have no source.
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

/// The division of a warp into groups of lanes. Each group, whose size is a power of two, copies
/// one row, one vector per lane; in a longer row each lane continues at a stride of the group's
/// size.
struct MoveLanes {
  std::int64_t vectors;  ///< vectors per row
  int log2_lanes = 0;

  explicit MoveLanes(std::int64_t vectors_a_row) : vectors(vectors_a_row) {
    while (log2_lanes < 5 && (std::int64_t{1} << log2_lanes) < vectors) {
      ++log2_lanes;
    }
  }
  __host__ __device__ int lanes() const { return 1 << log2_lanes; }
  __host__ __device__ int groups() const { return kMoveThreads >> log2_lanes; }
};

/// Returns the source from which a thread block reads its row copies: moves.within(begin, end) if
/// `moves` has that function, otherwise `moves`. All threads of the block must call moves_within()
/// together.
template <class Moves>
__device__ auto moves_within(Moves const& moves, std::int64_t begin, std::int64_t end) {
  if constexpr (requires { moves.within(begin, end); }) {
    return moves.within(begin, end);
  } else {
    return moves;
  }
}

/// Copies one row from moves.at(i).from to moves.at(i).to for each i < moves.count(); both
/// functions are evaluated on the device. A block has consecutive values of i, of which each group
/// of lanes takes every groups()-th. The blocks along the grid's y share long rows.
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

/// Copies up to `capacity` rows, as `moves` describes, with the widest vectors that the addresses
/// and the size of a row allow.
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
