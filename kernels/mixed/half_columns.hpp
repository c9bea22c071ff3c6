// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// A matrix [rows, width] of half precision whose columns are side by side with others in a packed
/// row-major matrix.
struct HalfColumns {
  void* data;
  std::int64_t width;
};

/// Copies matrices side by side into a packed matrix of half precision, as concat_columns() does
/// with floats. Neighbouring halves are copied in pairs, in one launch for many blocks, if all
/// widths are even and all addresses multiples of 4 bytes; otherwise each block has a launch
/// of its own. A block with null data is skipped.
void concat_half_columns(HostStream stream,
                         std::span<HalfColumns const> blocks,
                         std::int64_t rows,
                         void* packed);
void concat_half_columns(CudaStream stream,
                         std::span<HalfColumns const> blocks,
                         std::int64_t rows,
                         void* packed);
/// Copies the columns of a packed matrix to separate matrices, the reverse of
/// concat_half_columns(). A block with null data is skipped.
void split_half_columns(HostStream stream,
                        void const* packed,
                        std::span<HalfColumns const> blocks,
                        std::int64_t rows);
void split_half_columns(CudaStream stream,
                        void const* packed,
                        std::span<HalfColumns const> blocks,
                        std::int64_t rows);

/// Copies the rows of a matrix of half precision to rows of another width: cuts columns off at the
/// end, or appends columns of zeros.
struct ResizedColumns {
  void const* from;  ///< [rows, from_width]
  void* to;          ///< [rows, to_width]
  std::int64_t rows;
  std::int64_t from_width;
  std::int64_t to_width;
};
void resize_half_columns(HostStream stream, ResizedColumns const& args);
void resize_half_columns(CudaStream stream, ResizedColumns const& args);

}  // namespace msstream::ops::kernels
