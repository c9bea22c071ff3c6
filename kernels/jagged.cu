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

struct ToJagged {
  JaggedLayout layout;

  __device__ std::int64_t count() const { return layout.capacity; }
  __device__ RowMove at(std::int64_t i) const {
    auto const sample = count_not_above(layout.offsets, layout.batch + 1, i) - 1;
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
