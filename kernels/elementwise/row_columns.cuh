// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/row_vector.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>

/// The columns of a row that one thread keeps in its registers, when several threads share the row.
namespace msstream::ops::kernels {

/// The most columns of a row that threads keep in registers.
inline constexpr std::int64_t kLongestRowInRegisters = 8192;

/// Up to `Count` columns of a row of T, where a vector has 16 bytes if rows are aligned, and
/// otherwise is one element:
///
///   thread l of n has vectors l, l + n, l + 2 n, …  of the row
///
/// so that neighbouring threads access neighbouring vectors. The columns are numbered from 0 to
/// Count - 1 in the thread, at compile time, so that the number can be an index of registers. A
/// thread whose row does not exist passes 0 as the width.
template <class T, int Count, bool kIsAligned>
struct RowColumns {
  static constexpr int kVector = kIsAligned ? 16 / static_cast<int>(sizeof(T)) : 1;
  static constexpr int kVectors = Count / kVector;
  static_assert(Count % kVector == 0);

  int lane;   ///< number of the thread among those that share the row
  int lanes;  ///< number of these threads

  /// The thread's columns as they are in memory, which takes half the registers for half precision.
  struct Packed {
    PackedColumns<T, kVector> vectors[kVectors];

    __device__ void load(int v, T const* from) {
      using Bits = decltype(PackedColumns<T, kVector>::bits);
      vectors[v].bits = *reinterpret_cast<Bits const*>(from);
    }
    /// Sets all columns to one element.
    __device__ void fill(T element) {
      using Bits = decltype(PackedColumns<T, kVector>::bits);
      detail::Unpacked<T, kVector> elements;
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        elements.at[c] = element;
      }
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        vectors[v].bits = std::bit_cast<Bits>(elements);
      }
    }
    /// Returns column c of vector v.
    [[nodiscard]] __device__ float at(int v, int c) const {
      return vectors[v].widened().at[c];
    }
    /// Makes the compiler forget what it computed from the columns, so that it converts them again
    /// instead of keeping twice as many registers.
    __device__ void forget_converted() {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        auto& bits = vectors[v].bits;
        if constexpr (kIsAligned) {
          asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
        } else if constexpr (sizeof(T) == sizeof(float)) {
          asm volatile("" : "+r"(bits));
        } else {
          asm volatile("" : "+h"(bits));
        }
      }
    }
    /// Does so for halves that have been converted to floats.
    __device__ void forget_widened() {
      if constexpr (sizeof(T) < sizeof(float)) {
        forget_converted();
      }
    }
  };

  /// Calls each(v, column) for each of the thread's vectors that exist: v numbers them from 0, and
  /// `column` is the first column of the row that the vector holds.
  template <class Each>
  __device__ void for_each_vector(int width, Each const& each) const {
    int stride = lanes;
    if constexpr (!kIsAligned) {
      // Keeps the compiler from holding the addresses of all columns in registers.
      asm volatile("" : "+r"(stride));
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int const column = (lane + v * stride) * kVector;
      if (column < width) {
        each(v, column);
      }
    }
  }
  /// Calls each(k) for each of the thread's columns that exist.
  template <class Each>
  __device__ void for_each(int width, Each const& each) const {
    for_each_vector(width, [&](int v, int) {
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        each(v * kVector + c);
      }
    });
  }
};

/// Returns the number of a row's first element. The compiler is kept from multiplying anew for each
/// access to the row, and from holding the addresses of all of them.
__device__ inline std::int64_t start_of_row(std::int64_t row, std::int64_t width) {
  std::int64_t start = row * width;
  asm volatile("" : "+l"(start));
  return start;
}

/// Loads neighbouring floats that the kernel does not write, at most four at a time.
template <int Count>
__device__ Columns<Count> load_parameters(float const* from) {
  constexpr int kPiece = std::min(Count, 4);
  Columns<Count> columns;
#pragma unroll
  for (int first = 0; first < Count; first += kPiece) {
    auto const piece = load_columns<kPiece>(from + first);
#pragma unroll
    for (int c = 0; c < kPiece; ++c) {
      columns.at[first + c] = piece.at[c];
    }
  }
  return columns;
}

/// Converts columns to type T and stores them with accesses of at most 16 bytes. `to` must be
/// aligned to such an access.
template <class T, int Count>
__device__ void store_vector(T* to, Columns<Count> const& columns) {
  constexpr int kPiece = std::min(Count, 16 / static_cast<int>(sizeof(T)));
  using Bits = detail::Packed<kPiece* static_cast<int>(sizeof(T))>;
#pragma unroll
  for (int first = 0; first < Count; first += kPiece) {
    detail::Unpacked<T, kPiece> elements;
#pragma unroll
    for (int c = 0; c < kPiece; ++c) {
      elements.at[c] = narrowed<T>(columns.at[first + c]);
    }
    *reinterpret_cast<Bits*>(to + first) = std::bit_cast<Bits>(elements);
  }
}

/// Returns whether rows of `width` elements of type T, and floats that belong to their columns, can
/// be accessed in vectors of 16 bytes. Null pointers pass, because they are never accessed.
template <class T, class... Pointers>
bool allows_whole_vectors(std::int64_t width, Pointers const*... pointers) {
  return width % (16 / static_cast<std::int64_t>(sizeof(T))) == 0 &&
         ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace msstream::ops::kernels
