// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/launch.cuh"

#include <cstdint>
#include <type_traits>

/// The common parts of elementwise kernels, in which each thread computes four or eight elements
/// and a launch may cover several arrays. Elements are float32, float16 or bfloat16 in memory, and
/// float32 in registers.
namespace msstream::ops::kernels {

inline constexpr int kBlockThreads = 256;

/// A group of neighbouring elements that one instruction loads or stores.
template <class T, int Lanes>
struct alignas(sizeof(T) * Lanes) Pack {
  T lanes[Lanes];
};
using Quad = Pack<float, 4>;

/// Returns whether a Quad (four floats) can be loaded at each of the pointers. Null pointers pass,
/// because they are never loaded.
template <class... T>
bool quads_fit(T const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignof(Quad) == 0) && ...);
}

/// The elements of an array that one thread works on, up to four in each of its Quads. If `whole`
/// is true, all of them exist and vector accesses are possible; otherwise the array is too short or
/// is not aligned. The Quads of a thread are a block's width apart, so that neighbouring threads
/// access neighbouring Quads.
template <int Quads = 1>
struct QuadPlace {
  static constexpr int kLanes = 4 * Quads;
  struct Values {
    float lanes[kLanes];
  };

  std::int64_t first;
  std::int64_t count;  ///< the number of elements in the array
  bool whole;

  __device__ QuadPlace(std::int64_t first_quad, std::int64_t array_count, bool aligned)
      : first(4 * first_quad), count(array_count), whole(aligned && element(kLanes - 1) < count) {}

  __device__ bool exists() const { return first < count; }
  __device__ std::int64_t element(int lane) const {
    return first + lane / 4 * (4 * kBlockThreads) + lane % 4;
  }

  template <class T>
  __device__ Values load(T const* from) const {
    return whole ? load_whole(from) : load_part(from);
  }

  template <class T>
  __device__ Values load_whole(T const* from) const {
    Values values;
#pragma unroll
    for (int lane = 0; lane < kLanes; lane += 4) {
      auto const quad = *reinterpret_cast<Pack<T, 4> const*>(from + element(lane));
      for (int k = 0; k < 4; ++k) {
        values.lanes[lane + k] = widen(quad.lanes[k]);
      }
    }
    return values;
  }
  template <class T>
  __device__ Values load_part(T const* from) const {
    Values values{};
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      if (element(lane) < count) {
        values.lanes[lane] = widen(from[element(lane)]);
      }
    }
    return values;
  }

  template <class T>
  __device__ void store(T* to, Values const& values) const {
    if (whole) {
#pragma unroll
      for (int lane = 0; lane < kLanes; lane += 4) {
        *reinterpret_cast<Pack<T, 4>*>(to +
                                       element(lane)) = {{narrowed<T>(values.lanes[lane]),
                                                          narrowed<T>(values.lanes[lane + 1]),
                                                          narrowed<T>(values.lanes[lane + 2]),
                                                          narrowed<T>(values.lanes[lane + 3])}};
      }
      return;
    }
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      if (element(lane) < count) {
        to[element(lane)] = narrowed<T>(values.lanes[lane]);
      }
    }
  }
};

/// Returns the index of the calling thread's first Quad (four floats) when each thread of the grid
/// works on `Quads` of them.
template <int Quads>
__device__ inline std::int64_t grid_quad() {
  return static_cast<std::int64_t>(blockIdx.x) * (Quads * kBlockThreads) + threadIdx.x;
}
template <int Quads>
__device__ inline QuadPlace<Quads> grid_place(std::int64_t count, bool aligned) {
  return {grid_quad<Quads>(), count, aligned};
}

/// The most elements for which an elementwise kernel gives each thread one Quad (four floats): 128
/// blocks, about one per multiprocessor. For more elements, a thread has two Quads. Two parallel
/// branches of kernels on 512 x 512 floats then take as long as 1.5 kernels in sequence, instead of
/// 2 with one Quad per thread, and four branches as long as 2 instead of 2.9; a single branch takes
/// a tenth longer (H200, in one graph).
inline constexpr std::int64_t kMostForOneQuad = std::int64_t{128} * 4 * kBlockThreads;

/// Calls launch(quads, blocks) for an elementwise kernel on `count` elements: `quads` is the number
/// of Quads per thread as an std::integral_constant, and `blocks` the size of the grid.
template <class Launch>
void with_quads_a_thread(std::int64_t count, Launch const& launch) {
  auto const with = [&](auto quads) { launch(quads, grid_for(count, 4 * quads * kBlockThreads)); };
  if (count <= kMostForOneQuad) {
    with(std::integral_constant<int, 1>{});
  } else {
    with(std::integral_constant<int, 2>{});
  }
}

inline void set_to_zero(cudaStream_t stream,
                        void* values,
                        std::int64_t count,
                        DType dtype = DType::float32) {
  if (count > 0) {
    check_cuda(
        cudaMemsetAsync(values, 0, static_cast<std::size_t>(count) * bytes_of(dtype), stream),
        "cudaMemsetAsync");
  }
}

template <int Quads, class Function, class Output, class... Inputs>
__global__ void __launch_bounds__(kBlockThreads) map_kernel(
    Function function, Output* output, std::int64_t count, bool aligned, Inputs... inputs) {
  auto const place = grid_place<Quads>(count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const apply = [&](auto const&... values) {
    typename QuadPlace<Quads>::Values results;
#pragma unroll
    for (int lane = 0; lane < place.kLanes; ++lane) {
      results.lanes[lane] = function(values.lanes[lane]...);
    }
    return results;
  };
  place.store(output, apply(place.load(inputs)...));
}

/// Computes output[i] = function(inputs[i]...) for i < count; output may be one of the inputs. The
/// function is computed in float32, whatever the element types.
template <class Function, class Output, class... Inputs>
void map(cudaStream_t stream,
         char const* name,
         Function function,
         Output* output,
         std::int64_t count,
         Inputs const*... inputs) {
  if (count <= 0) {
    return;
  }
  bool const aligned = quads_fit(output, inputs...);
  with_quads_a_thread(count, [&](auto quads, unsigned blocks) {
    map_kernel<quads.value>
        <<<blocks, kBlockThreads, 0, stream>>>(function, output, count, aligned, inputs...);
  });
  check_launch(name);
}

/// Returns the array that the calling thread's block works on, in a launch that several arrays
/// (pieces) share. Each piece has thread blocks of its own, from `first_block` on;
/// pieces[0].first_block is 0.
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
/// Returns the index of the calling thread among the threads of its piece, in a launch that several
/// arrays (pieces) share.
template <class Piece>
__device__ inline std::int64_t piece_thread(Piece const& piece) {
  return static_cast<std::int64_t>(blockIdx.x - piece.first_block) * blockDim.x + threadIdx.x;
}

/// The arrays (pieces) that share one launch, passed as a kernel parameter.
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
