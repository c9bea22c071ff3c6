// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "move_rows.cuh"

#include <msstream/ops/kernels/jagged.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Vectors that a block may have to clear, and how many blocks then fill a large GPU.
constexpr std::int64_t kClearedABlock = 16 * kMoveThreads;
constexpr std::int64_t kMostClearBlocks = 1056;

__device__ std::int64_t offset_of(JaggedLayout const& layout, std::int64_t sample) {
  return clamped(layout.offsets[sample], layout.capacity);
}

struct ToDense {
  JaggedLayout layout;

  __device__ std::int64_t count() const { return layout.batch * layout.max_length; }
  __device__ RowMove at(std::int64_t i) const {
    auto const sample = i / layout.max_length;
    auto const place = offset_of(layout, sample) + (i - sample * layout.max_length);
    return {place < offset_of(layout, sample + 1) ? place : -1, i};
  }
};

struct ToJagged {
  JaggedLayout layout;

  __device__ std::int64_t count() const { return layout.batch * layout.max_length; }
  __device__ RowMove at(std::int64_t i) const {
    auto const sample = i / layout.max_length;
    auto const place = offset_of(layout, sample) + (i - sample * layout.max_length);
    return {i, place < offset_of(layout, sample + 1) ? place : -1};
  }
};

/// Sets to zero what no dense row is for: a warp a sample what the sample has beyond max_length,
/// all of the grid what is in no sample.
template <class Vector>
__global__ void __launch_bounds__(kMoveThreads)
    clear_rest_kernel(JaggedLayout layout, std::int64_t vectors_a_row, Vector* values) {
  auto const clear =
      [&](std::int64_t first_row, std::int64_t end_row, std::int64_t thread, std::int64_t threads) {
        auto const end = end_row * vectors_a_row;
        for (auto i = first_row * vectors_a_row + thread; i < end; i += threads) {
          values[i] = Vector{};
        }
      };
  auto const thread = grid_thread();
  if (auto const sample = thread / 32; sample < layout.batch) {
    auto const end = offset_of(layout, sample + 1);
    clear(min(offset_of(layout, sample) + layout.max_length, end), end, thread % 32, 32);
  }
  clear(0, offset_of(layout, 0), thread, grid_stride());
  clear(offset_of(layout, layout.batch), layout.capacity, thread, grid_stride());
}

}  // namespace

void jagged_to_dense(CudaStream stream, JaggedToDenseArgs const& args) {
  move_rows(stream,
            "jagged_to_dense",
            ToDense{args.layout},
            args.layout.batch * args.layout.max_length,
            args.layout.row_bytes,
            args.values,
            args.dense,
            RowFill(args.padding_bits, args.element_bytes));
}

void dense_to_jagged(CudaStream stream, DenseToJaggedArgs const& args) {
  auto const& layout = args.layout;
  if (layout.capacity == 0 || layout.row_bytes == 0) {
    return;
  }
  move_rows(stream,
            "dense_to_jagged",
            ToJagged{layout},
            layout.batch * layout.max_length,
            layout.row_bytes,
            args.dense,
            args.values);
  with_row_vectors(args.values, nullptr, layout.row_bytes, [&]<class Vector>(Vector) {
    auto const vectors = layout.row_bytes / static_cast<std::int64_t>(sizeof(Vector));
    auto const blocks =
        std::max(ceil_div<std::int64_t>(layout.batch, kMoveThreads / 32),
                 std::min(ceil_div(layout.capacity * vectors, kClearedABlock), kMostClearBlocks));
    clear_rest_kernel<<<grid_for(blocks, 1), kMoveThreads, 0, stream>>>(
        layout, vectors, static_cast<Vector*>(args.values));
  });
  check_launch("dense_to_jagged, rest");
}

}  // namespace msstream::ops::kernels
