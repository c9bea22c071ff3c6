// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "hash_functions.hpp"
#include "move_rows.cuh"

#include <msstream/ops/kernels/jagged.hpp>

namespace msstream::ops::kernels {
namespace {

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

/// Narrows [low, high] to where count_not_above() of `value` lies: a block's threads compare with
/// as many values at once. All of them call it together.
__device__ void narrow_by_block(std::int64_t const* values,
                                std::int64_t value,
                                std::int64_t& low,
                                std::int64_t& high) {
  while (low < high) {
    auto const step = ceil_div<std::int64_t>(high - low, kMoveThreads);
    auto const probe = low + (threadIdx.x + 1) * step - 1;
    auto const not_above = __syncthreads_count(probe < high && values[probe] <= value ? 1 : 0);
    low += not_above * step;
    high = min(low + step - 1, high);
  }
}

struct ToJagged {
  JaggedLayout layout;
  std::int64_t low = 0;  ///< so many offsets at least are not above a place
  std::int64_t high = layout.batch + 1;

  __device__ std::int64_t count() const { return layout.capacity; }

  /// For the places [begin, end).
  __device__ ToJagged within(std::int64_t begin, std::int64_t end) const {
    ToJagged narrowed = *this;
    auto last = high;
    narrow_by_block(layout.offsets, begin, narrowed.low, last);
    last = narrowed.low;
    narrow_by_block(layout.offsets, end - 1, last, narrowed.high);
    return narrowed;
  }

  __device__ RowMove at(std::int64_t i) const {
    auto const sample = low + count_not_above(layout.offsets + low, high - low, i) - 1;
    if (sample < 0 || sample >= layout.batch) {
      return {-1, i};
    }
    auto const row = i - layout.offsets[sample];
    return {row < layout.max_length ? sample * layout.max_length + row : -1, i};
  }
};

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
  move_rows(stream,
            "dense_to_jagged",
            ToJagged{args.layout},
            args.layout.capacity,
            args.layout.row_bytes,
            args.dense,
            args.values);
}

}  // namespace msstream::ops::kernels
