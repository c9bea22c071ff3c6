// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "segmented_sum.cuh"

#include <msstream/ops/kernels/embedding.hpp>

namespace msstream::ops::kernels {
namespace {

/// The k-th sorted position's row is the gradient of its bag.
struct BagGradients {
  static constexpr bool kIsCostly = true;

  float const* rows;
  BagLayout bags;
  Pooling pooling;
  std::int64_t const* ids;
  std::int64_t table_rows;
  std::int64_t const* positions;

  __device__ Place place(std::int64_t k) const {
    auto const bag = bag_of_place(bags, positions[k]);
    return {bag, gradient_scale(bags, pooling, ids, table_rows, bag)};
  }
};

}  // namespace

std::size_t row_gradient_workspace_bytes(CudaStream, std::int64_t capacity, std::int64_t width) {
  return segmented_sum_workspace_bytes(capacity, capacity, width);
}

void embedding_row_gradients(CudaStream stream, RowGradientArgs const& args) {
  auto const capacity = args.bags.capacity;
  segmented_sum(
      stream,
      BagGradients{
          args.output_gradient, args.bags, args.pooling, args.ids, args.rows, args.positions},
      SegmentSpan{args.starts, args.unique_count, capacity},
      capacity,
      SumOutput{args.row_gradients, args.width, false},
      args.workspace);
}

}  // namespace msstream::ops::kernels
