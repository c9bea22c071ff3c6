// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "embedding_gradient/tables_gradient.hpp"
#include "embedding_gradient/tables_sums.cuh"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Adds the products of four columns of a table row and of the gradient of its output row.
template <class T>
__device__ float add_products(float sum, T const* row, float const* gradient, int count) {
  auto const weights = load_some_columns(row, count);
  auto const gradients = load_some_columns(gradient, count);
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    if (c < count) {
      sum = __fadd_rn(sum, __fmul_rn(weights.at[c], gradients.at[c]));
    }
  }
  return sum;
}

/// Computes the gradient of the weight of one position per group of lanes. All lanes stay to the
/// end, because the lanes of a warp exchange their sums.
template <class Row>
__global__ void __launch_bounds__(kTableSumThreads)
    tables_weight_gradient_kernel(__grid_constant__ TablesWeightGradientArgs const args,
                                  RowLanes const shape,
                                  std::int64_t output_width) {
  auto const place = grid_thread() >> shape.log2_lanes;
  bool const exists = place < args.capacity;
  std::int64_t const row = exists ? __ldg(static_cast<Row const*>(args.rows) + place) : -1;
  float sum = 0.0F;
  if (row >= 0) {
    auto const bag = static_cast<unsigned>(__ldg(args.bags_of_places + place));
    auto const number = bag / static_cast<unsigned>(args.batch);
    auto const& table = args.tables[number];
    auto const* const gradient =
        args.output_gradient + (bag - number * args.batch) * output_width + table.first_column;
    auto const first = (row - __ldg(args.first_rows + number)) * table.width;
    int const width = table.pooling == Pooling::sum ? table.width : 0;
    for (std::int64_t column = shape.lane() * kTableSumCount; column < width;
         column += shape.lanes() * kTableSumCount) {
      auto const count = static_cast<int>(width - column);
      auto const element = first + column;
      switch (table.dtype) {
        case DType::float16:
          sum = add_products(
              sum, static_cast<float16 const*>(table.table) + element, gradient + column, count);
          break;
        case DType::bfloat16:
          sum = add_products(
              sum, static_cast<bfloat16 const*>(table.table) + element, gradient + column, count);
          break;
        default:
          sum = add_products(
              sum, static_cast<float const*>(table.table) + element, gradient + column, count);
      }
    }
  }
  for (int distance = shape.lanes() / 2; distance > 0; distance /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, distance));
  }
  if (exists && shape.lane() == 0) {
    args.weight_gradient[place] = sum;
  }
}

template <class Row>
void launch(CudaStream stream, TablesWeightGradientArgs const& args) {
  RowLanes const shape(args.plan->widest, kTableSumCount);
  tables_weight_gradient_kernel<Row>
      <<<grid_for(args.capacity, kTableSumThreads >> shape.log2_lanes),
         kTableSumThreads,
         0,
         stream>>>(args, shape, args.plan->width);
  check_launch("embedding_tables_weight_gradient");
}

}  // namespace

void embedding_tables_weight_gradient(CudaStream stream, TablesWeightGradientArgs const& args) {
  if (args.capacity == 0) {
    return;
  }
  args.row_dtype == DType::int64 ? launch<std::int64_t>(stream, args)
                                 : launch<std::int32_t>(stream, args);
}

}  // namespace msstream::ops::kernels
