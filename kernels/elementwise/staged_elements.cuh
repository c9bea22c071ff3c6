// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/row_columns.cuh"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Copies between global and shared memory of neighbouring elements that may begin anywhere, as
/// rows of odd widths do. The elements between two multiples of 16 bytes are copied 16 bytes at a
/// time, and only the few before and after them one by one, so that no other element is touched.
/// Neighbouring rows of matrices are copied so for elementwise/rows_in_registers.cuh.
namespace msstream::ops::kernels {

/// Returns the bytes of shared memory that `count` elements of T need, wherever they begin.
template <class T>
[[nodiscard]] __host__ __device__ constexpr std::size_t staged_bytes(std::int64_t count) {
  auto const bytes = static_cast<std::size_t>(count) * sizeof(T) + (16 - sizeof(T));
  return (bytes + 15) / 16 * 16;
}

namespace detail {

/// Returns by how many elements an address lies behind a multiple of 16 bytes.
template <class T>
__device__ int elements_into_vector(T const* at) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % 16 / sizeof(T));
}

/// Calls vector(i) for the first element of each 16 bytes that lie whole among `count` elements
/// from `at` on, and element(i) for each element outside of them. The threads of a block, at least
/// a warp, share the calls.
template <class T, class Vector, class Element>
__device__ void for_each_vector_of_block(T const* at,
                                         int count,
                                         Vector const& vector,
                                         Element const& element) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  auto const thread = static_cast<int>(threadIdx.x);
  int const before = min((kVector - elements_into_vector(at)) % kVector, count);
  int const vectors = (count - before) / kVector;
  for (int v = thread; v < vectors; v += static_cast<int>(blockDim.x)) {
    vector(before + v * kVector);
  }
  if (thread < before) {
    element(thread);
  }
  if (int const last = before + vectors * kVector + thread; last < count) {
    element(last);
  }
}

}  // namespace detail

/// Returns where in the shared memory `staged` (aligned to 16 bytes) the elements lie that have
/// the address `global` in global memory: as far behind a multiple of 16 bytes.
template <class T>
__device__ T* staged_place(void* staged, T const* global) {
  return static_cast<T*>(staged) + detail::elements_into_vector(global);
}

/// Begins to copy `count` elements from global memory to their staged_place(). They are there after
/// wait_for_staged().
template <class T>
__device__ void stage(T* staged, T const* global, int count) {
  detail::for_each_vector_of_block(
      global,
      count,
      [=](int i) { __pipeline_memcpy_async(staged + i, global + i, 16); },
      [=](int i) {
        if constexpr (sizeof(T) >= 4) {
          __pipeline_memcpy_async(staged + i, global + i, sizeof(T));
        } else {
          staged[i] = global[i];
        }
      });
}
/// Waits until the block has copied all elements of stage(). All threads of the block call it.
__device__ inline void wait_for_staged() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// Copies `count` elements of shared memory, which the block has written, to global memory. All
/// threads of the block call it.
template <class T>
__device__ void store_staged(T* global, T const* staged, int count) {
  __syncthreads();
  if (detail::elements_into_vector(global) == detail::elements_into_vector(staged)) {
    detail::for_each_vector_of_block(
        global,
        count,
        [=](int i) {
          *reinterpret_cast<uint4*>(global + i) = *reinterpret_cast<uint4 const*>(staged + i);
        },
        [=](int i) { global[i] = staged[i]; });
  } else {
    for (auto i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      global[i] = staged[i];
    }
  }
}

/// The shared memory in which a block has rows: the inputs, and the output in place of the first
/// input if their elements have one size.
template <class Function>
struct StagedRows {
  using In = typename Function::In;
  using Out = typename Function::Out;
  static constexpr bool kIsInPlace = sizeof(In) == sizeof(Out);

  /// Returns the bytes for `rows` rows of a width, a multiple of 16.
  [[nodiscard]] static __host__ __device__ std::size_t bytes(std::int64_t rows,
                                                             std::int64_t width) {
    return Function::kInputs * staged_bytes<In>(rows * width) +
           (kIsInPlace ? 0 : staged_bytes<Out>(rows * width));
  }
};

/// How blocks divide rows that they copy to shared memory.
struct StagedDivision {
  int log2_lanes = 0;  ///< log2 of the lanes of a team, if it is not a block
  int log2_run = 0;    ///< log2 of the neighbouring rows that a team takes one after the other
  int rows_a_batch =
      1;            ///< rows that are in shared memory together, a multiple of those of all runs
  int batches = 1;  ///< batches of a block; the next one is copied while one is computed
};

/// A batch of neighbouring rows in one of the two buffers of a block.
template <class Function>
struct StagedBatch {
  using In = typename Function::In;
  using Out = typename Function::Out;

  std::int64_t first;  ///< number of the first row
  int rows;            ///< rows of the batch that exist, at least 0
  int count;           ///< elements of these rows
  In const* from[Function::kInputs];
  In* inputs[Function::kInputs];  ///< in shared memory
  Out* to;
  Out* output;  ///< in shared memory

  __device__ StagedBatch(
      Function const& function, StagedDivision const& division, int width, int batch, void* shared)
      : first((static_cast<std::int64_t>(blockIdx.x) * division.batches + batch) *
              division.rows_a_batch),
        rows(static_cast<int>(max(min(function.rows() - first, std::int64_t{division.rows_a_batch}),
                                  std::int64_t{0}))),
        count(rows * width) {
    auto const at = start_of_row(first, width);
    std::int64_t const most = std::int64_t{division.rows_a_batch} * width;
    auto* memory = static_cast<std::byte*>(shared) +
                   batch % 2 * StagedRows<Function>::bytes(division.rows_a_batch, width);
#pragma unroll
    for (int i = 0; i < Function::kInputs; ++i) {
      from[i] = function.input(i) + at;
      inputs[i] = staged_place<In>(memory, from[i]);
      memory += staged_bytes<In>(most);
    }
    to = function.output() + at;
    output = StagedRows<Function>::kIsInPlace ? reinterpret_cast<Out*>(inputs[0])
                                              : staged_place<Out>(memory, to);
  }

  /// Begins to copy the inputs to shared memory.
  __device__ void begin() const {
#pragma unroll
    for (int i = 0; i < Function::kInputs; ++i) {
      stage(inputs[i], from[i], count);
    }
  }
};

}  // namespace msstream::ops::kernels
