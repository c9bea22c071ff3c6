// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"

#include <cstdint>

/// What the elementwise kernels share: four floats a thread, and several arrays a launch.
namespace msstream::ops::kernels {

inline constexpr int kBlockThreads = 256;

/// Neighbouring elements that one instruction loads or stores.
template <class T, int Lanes>
struct alignas(sizeof(T) * Lanes) Pack {
  T lanes[Lanes];
};
using Quad = Pack<float, 4>;

/// Whether a Quad can be loaded at each of the pointers; null is never loaded and does not matter.
template <class... T>
bool quads_fit(T const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignof(Quad) == 0) && ...);
}

/// The up to four elements of an array that one thread works on: whole (one vector access), or in
/// part, because the array ends or is not aligned.
struct QuadPlace {
  std::int64_t first;
  std::int64_t count;  ///< of the array
  bool whole;

  __device__ QuadPlace(std::int64_t quad, std::int64_t array_count, bool aligned)
      : first(4 * quad), count(array_count), whole(aligned && first + 4 <= count) {}

  __device__ bool exists() const { return first < count; }

  __device__ Quad load(float const* from) const {
    return whole ? load_whole(from) : load_part(from);
  }

  __device__ Quad load_whole(float const* from) const {
    return *reinterpret_cast<Quad const*>(from + first);
  }
  __device__ Quad load_part(float const* from) const {
    Quad quad{};
    for (int lane = 0; lane < 4; ++lane) {
      if (first + lane < count) {
        quad.lanes[lane] = from[first + lane];
      }
    }
    return quad;
  }

  __device__ void store(float* to, Quad const& quad) const {
    if (whole) {
      *reinterpret_cast<Quad*>(to + first) = quad;
      return;
    }
    for (int lane = 0; lane < 4; ++lane) {
      if (first + lane < count) {
        to[first + lane] = quad.lanes[lane];
      }
    }
  }
};

inline void set_to_zero(cudaStream_t stream, float* values, std::int64_t count) {
  if (count > 0) {
    check_cuda(cudaMemsetAsync(values, 0, static_cast<std::size_t>(count) * sizeof(float), stream),
               "cudaMemsetAsync");
  }
}

template <class Function, class... Inputs>
__global__ void __launch_bounds__(kBlockThreads) map_kernel(
    Function function, float* output, std::int64_t count, bool aligned, Inputs... inputs) {
  QuadPlace const place(grid_thread(), count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const apply = [&](auto const&... quads) {
    Quad result;
    for (int lane = 0; lane < 4; ++lane) {
      result.lanes[lane] = function(quads.lanes[lane]...);
    }
    return result;
  };
  place.store(output, apply(place.load(inputs)...));
}

/// output[i] = function(inputs[i]...) for i < count; output may be one of the inputs.
template <class Function, class... Inputs>
void map(cudaStream_t stream,
         char const* name,
         Function function,
         float* output,
         std::int64_t count,
         Inputs const*... inputs) {
  if (count <= 0) {
    return;
  }
  bool const aligned = quads_fit(output, inputs...);
  map_kernel<<<grid_for(count, 4 * kBlockThreads), kBlockThreads, 0, stream>>>(
      function, output, count, aligned, inputs...);
  check_launch(name);
}

/// Several arrays share a launch: each is a piece with thread blocks of its own, from `first_block`
/// on. Returns the piece of the calling thread's block; pieces[0].first_block is 0.
template <class Piece>
__device__ inline Piece const& piece_of_block(Piece const* pieces, int count) {
  int low = 0;
  int high = count;
  while (high - low > 1) {
    int const middle = (low + high) / 2;
    (pieces[middle].first_block <= blockIdx.x ? low : high) = middle;
  }
  return pieces[low];
}
/// The number of the calling thread within its piece.
template <class Piece>
__device__ inline std::int64_t piece_thread(Piece const& piece) {
  return static_cast<std::int64_t>(blockIdx.x - piece.first_block) * blockDim.x + threadIdx.x;
}

/// The pieces of one launch, passed as a kernel parameter.
template <class Piece, int Capacity>
struct PieceTable {
  Piece pieces[Capacity];
  int count = 0;
  std::int64_t blocks = 0;

  [[nodiscard]] bool full() const { return count == Capacity; }
  void add(Piece const& piece, std::int64_t piece_blocks) {
    pieces[count] = piece;
    pieces[count].first_block = grid_for(blocks, 1);
    blocks += piece_blocks;
    ++count;
  }
};

}  // namespace msstream::ops::kernels
