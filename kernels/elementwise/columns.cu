// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "elementwise/elementwise.hpp"

#include <type_traits>

namespace msstream::ops::kernels {

namespace {

/// One of the matrices that are copied into or out of the columns of a packed matrix. Each thread
/// copies one float, or four if the alignment of every row allows it.
struct ColumnPiece {
  float* data;
  std::int64_t width;
  std::int64_t start;  ///< column of the packed matrix at which the piece begins
  unsigned first_block;
  bool quads;
};
using ColumnTable = PieceTable<ColumnPiece, 64>;

/// Copies between the packed matrix and the matrices that its columns are made of. `Packed` is
/// `float` for concat_columns(), which writes the packed matrix, and `float const` for
/// split_columns(), which reads it.
template <class Packed>
__global__ void __launch_bounds__(kBlockThreads)
    copy_columns_kernel(__grid_constant__ ColumnTable const table,
                        Packed* packed,
                        std::int64_t packed_width,
                        std::int64_t rows) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  std::int64_t const lanes = piece.quads ? 4 : 1;
  std::int64_t const units_a_row = piece.width / lanes;
  std::int64_t const unit = piece_thread(piece);
  std::int64_t const row = unit / units_a_row;
  if (row >= rows) {
    return;
  }
  std::int64_t const column = (unit - row * units_a_row) * lanes;
  auto* const in_block = piece.data + row * piece.width + column;
  auto* const in_packed = packed + row * packed_width + piece.start + column;
  auto const copy = [](auto* to, auto const* from) { *to = *from; };
  if constexpr (std::is_const_v<Packed>) {
    if (piece.quads) {
      copy(reinterpret_cast<Quad*>(in_block), reinterpret_cast<Quad const*>(in_packed));
    } else {
      copy(in_block, in_packed);
    }
  } else {
    if (piece.quads) {
      copy(reinterpret_cast<Quad*>(in_packed), reinterpret_cast<Quad const*>(in_block));
    } else {
      copy(in_packed, in_block);
    }
  }
}

template <class Packed>
void copy_columns(CudaStream stream,
                  char const* name,
                  std::span<ColumnBlock const> blocks,
                  std::int64_t rows,
                  Packed* packed) {
  std::int64_t packed_width = 0;
  for (auto const& block : blocks) {
    packed_width += block.width;
  }
  ColumnTable table;
  auto const launch = [&] {
    if (table.count > 0) {
      copy_columns_kernel<<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(
          table, packed, packed_width, rows);
      check_launch(name);
    }
  };
  std::int64_t start = 0;
  for (auto const& block : blocks) {
    if (table.full()) {
      launch();
      table = {};
    }
    if (block.data != nullptr && block.width > 0 && rows > 0) {
      bool const quads =
          quads_fit(packed, block.data) && (packed_width | block.width | start) % 4 == 0;
      auto const units = rows * block.width / (quads ? 4 : 1);
      table.add({block.data, block.width, start, 0, quads}, grid_for(units, kBlockThreads));
    }
    start += block.width;
  }
  launch();
}

}  // namespace

void concat_columns(CudaStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed) {
  copy_columns(stream, "concat_columns", blocks, rows, packed);
}

void split_columns(CudaStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows) {
  copy_columns(stream, "split_columns", blocks, rows, packed);
}

}  // namespace msstream::ops::kernels
