// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector_map.cuh"

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

/// The samples of a dot interaction of half precision in the shared memory of a warp, and their
/// copies from and to global memory. All lanes of a warp must call these functions together.
namespace msstream::ops::kernels {

/// The bytes of the widest access, and the halves that it accesses.
inline constexpr int kChunkBytes = 16;
inline constexpr int kChunk = kChunkBytes / 2;

/// The pieces of 16, 4 or 2 bytes in which a warp copies the rows of a sample.
struct PieceLayout {
  int halves;   ///< of a piece
  int of_row;   ///< pieces of a row
  int inverse;  ///< lane * inverse >> 16 is lane / of_row
  int step;     ///< 32 % of_row
  int step_at;  ///< how far 32 pieces are apart in shared memory, in halves, in one row or not
};

/// The shared memory of a sample, in halves: its vectors in rows of `stride`. The stride is an odd
/// number of chunks of 16 bytes, so that eight consecutive rows are in different banks.
struct HalfLayout {
  int vectors;
  int width;
  int padded;  ///< the width, rounded up to whole tiles
  int stride;
  int outputs;        ///< the number of outputs of a sample
  int staged_at;      ///< where the outputs, or the output gradient, are collected
  int sample_halves;  ///< the shared memory of a sample
  PieceLayout in;     ///< for rows of the inputs
  PieceLayout out;    ///< for rows of the gradients
};

template <class T>
__device__ void set_chunk(T* to, T const* from) {
  using Chunk = Pack<T, kChunk>;
  *reinterpret_cast<Chunk*>(to) = *reinterpret_cast<Chunk const*>(from);
}

/// An array, from an element on, that may not be wanted.
template <class T>
struct Wanted {
  T* from;
  bool is_wanted;
};

/// Divides rows, which are contiguous in global memory and `stride` apart in shared memory, into
/// pieces. Piece i belongs to lane i % 32, so that a warp accesses 32
/// neighbouring pieces at a time, whatever the width of a row.
class RowPieces {
 public:
  __device__ RowPieces(HalfLayout const& layout, PieceLayout const& pieces, int lane)
      : halves_(pieces.halves),
        of_row_(pieces.of_row),
        lane_(lane),
        row_(lane * pieces.inverse >> 16),
        first_(lane - row_ * of_row_),
        first_at_(row_ * layout.stride + first_ * halves_),
        step_(pieces.step),
        step_at_(pieces.step_at),
        next_row_(layout.stride - layout.width) {}

  [[nodiscard]] __device__ int halves() const { return halves_; }

  /// Calls each(at, in_shared) for the lane's pieces of the rows of a sample: their addresses in
  /// global and in shared memory. The first row is in `dense`, the `others` in `embeddings`; an
  /// array that is not wanted is left out. `Halves` is that of the pieces.
  template <int Halves, class T, class Shared, class Each>
  __device__ void for_each(
      Wanted<T> dense, Wanted<T> embeddings, int others, Shared shared, Each const& each) const {
    auto* at = embeddings.from + (lane_ - of_row_) * Halves;
    auto in_shared = shared + first_at_ * kUnit<Shared>;
    int left = (embeddings.is_wanted ? (others + 1) * of_row_ : of_row_) - lane_;
    if (Halves == kChunk && step_ == 0) {
      // The lane's pieces are in the same columns of all rows, and only its first one is in the
      // first row.
      bool const is_dense = lane_ < of_row_;
      if (left > 0 && (dense.is_wanted || !is_dense)) {
        each(is_dense ? dense.from + lane_ * Halves : at, in_shared);
      }
#pragma unroll 4
      for (left -= 32; left > 0; left -= 32) {
        at += 32 * Halves;
        in_shared += step_at_ * kUnit<Shared>;
        each(at, in_shared);
      }
      return;
    }
    int piece = first_;
#pragma unroll 1
    for (int i = lane_; left > 0; left -= 32, i += 32) {
      bool const is_dense = i < of_row_;
      if (dense.is_wanted || !is_dense) {
        each(is_dense ? dense.from + i * Halves : at, in_shared);
      }
      at += 32 * Halves;
      in_shared += step_at_ * kUnit<Shared>;
      piece += step_;
      if (piece >= of_row_) {
        piece -= of_row_;
        in_shared += next_row_ * kUnit<Shared>;
      }
    }
  }

 private:
  /// The number that is added to an address in shared memory for a half: an integer counts bytes.
  template <class Shared>
  static constexpr int kUnit = std::is_pointer_v<Shared> ? 1 : 2;

  int halves_;
  int of_row_;
  int lane_;
  int row_;
  int first_;
  int first_at_;
  int step_;
  int step_at_;
  int next_row_;
};

/// Calls with(Halves) for the number of halves of a piece, as a constant.
template <class With>
__device__ void with_piece(RowPieces const& pieces, With const& with) {
  if (pieces.halves() == kChunk) {
    with(std::integral_constant<int, kChunk>());
  } else if (pieces.halves() == 2) {
    with(std::integral_constant<int, 2>());
  } else {
    with(std::integral_constant<int, 1>());
  }
}

/// Begins to copy `Bytes` bytes into shared memory at the address `to`.
template <int Bytes, class T>
__device__ void begin_to_copy(std::uint32_t to, T const* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Bytes == kChunkBytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
    return;
  } else if constexpr (Bytes == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(from) : "memory");
    return;
  }
#endif
  using Piece = Pack<T, Bytes / 2>;
  *static_cast<Piece*>(__cvta_shared_to_generic(to)) = *reinterpret_cast<Piece const*>(from);
}

/// Begins to copy the vectors of a sample into shared memory at the address `vectors`: the dense
/// one, then the others.
template <class T>
__device__ void begin_to_load(std::uint32_t vectors,
                              HalfLayout const& layout,
                              RowPieces const& pieces,
                              T const* dense,
                              T const* embeddings) {
  with_piece(pieces, [&]<int Halves>(std::integral_constant<int, Halves>) {
    pieces.template for_each<Halves>(
        Wanted<T const>{dense, true},
        Wanted<T const>{embeddings, true},
        layout.vectors - 1,
        vectors,
        [](T const* from, std::uint32_t to) { begin_to_copy<Halves * 2>(to, from); });
  });
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
#pragma unroll 2
    for (int position = (first_chunk() + lane) * kChunk; position < end_of_chunks();
         position += 32 * kChunk) {
      each(position);
    }
  }
  /// Calls each(position) for all chunks that the row touches, of which a lane has every 32nd.
  template <class Each>
  __device__ void for_each_touched_chunk(int lane, Each const& each) const {
#pragma unroll 2
    for (int position = lane * kChunk; position < shift + count; position += 32 * kChunk) {
      each(position);
    }
  }
  /// Returns the position of the lane's half before or behind the whole chunks, or -1.
  [[nodiscard]] __device__ int edge(int lane) const {
    int const end = shift + count;
    int const head_end = min(first_chunk() * kChunk, end);
    int const tail = max(end_of_chunks(), head_end) + lane - kChunk;
    if (lane < kChunk) {
      return shift + lane < head_end ? shift + lane : -1;
    }
    return tail < end ? tail : -1;
  }

 private:
  [[nodiscard]] __device__ int first_chunk() const {
    return (shift + kChunk - 1) / kChunk;
  }
  [[nodiscard]] __device__ int end_of_chunks() const {
    return (shift + count) / kChunk * kChunk;
  }
};

/// Stores a row from shared memory, where it begins at staged[row.shift].
template <class T>
__device__ void store_row(T* to, T const* staged, ShiftedRow const& row, int lane) {
  row.for_each_chunk(
      lane, [&](int position) { set_chunk(to + (position - row.shift), staged + position); });
  if (int const position = row.edge(lane); position >= 0) {
    to[position - row.shift] = staged[position];
  }
}

/// Begins to copy a row into shared memory, where it begins `row.shift` halves behind the address
/// `staged`. `is_inside` tells that the array goes on for a chunk before and behind the row, so
/// that the chunks at the ends of the row can be copied as a whole.
template <class T>
__device__ void begin_to_load_row(
    std::uint32_t staged, T const* from, ShiftedRow const& row, bool is_inside, int lane) {
  auto const copy = [&](int position) {
    begin_to_copy<kChunkBytes>(staged + position * 2, from + (position - row.shift));
  };
  if (is_inside) {
    row.for_each_touched_chunk(lane, copy);
    return;
  }
  row.for_each_chunk(lane, copy);
  if (int const position = row.edge(lane); position >= 0) {
    begin_to_copy<2>(staged + position * 2, from + (position - row.shift));
  }
}

/// Stores the vectors of a sample from shared memory.
template <class T>
__device__ void store_vectors(Wanted<T> dense,
                              Wanted<T> embeddings,
                              HalfLayout const& layout,
                              RowPieces const& pieces,
                              T const* vectors) {
  with_piece(pieces, [&]<int Halves>(std::integral_constant<int, Halves>) {
    using Piece = Pack<T, Halves>;
    pieces.template for_each<Halves>(
        dense, embeddings, layout.vectors - 1, vectors, [](T* to, T const* from) {
          *reinterpret_cast<Piece*>(to) = *reinterpret_cast<Piece const*>(from);
        });
  });
}

}  // namespace msstream::ops::kernels
