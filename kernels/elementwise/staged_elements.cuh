// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Copies between global and shared memory of neighbouring elements that may begin anywhere, as
/// rows of odd widths do. The elements between two multiples of 16 bytes are copied 16 bytes at a
/// time, and only the few before and after them one by one, so that no other element is touched.
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
      [=](int i) { staged[i] = global[i]; });
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

}  // namespace msstream::ops::kernels
