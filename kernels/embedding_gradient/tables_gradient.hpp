// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/embedding_tables.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Describes each position of a lookup in many tables, which is that of an id or of the default id
/// of a bag: its row among the rows of all tables, first_rows[table] + id, or -1 without a valid
/// id; its bag, table * batch + bag; and its factor, the weight divided by the pooling divisor of
/// the bag. A position that belongs to no bag gets a row of -1; its bag and its factor are not
/// written.
struct TablePlacesArgs {
  TablesLookupArgs bags;           ///< report, output and argmax are unused
  std::int64_t const* first_rows;  ///< plan->first_rows in device memory
  void* rows;                      ///< [places] of `row_dtype`
  DType row_dtype;                 ///< int32 or int64
  std::int32_t* bags_of_places;    ///< [places]; tables * batch is below 2^31
  float* factors;                  ///< [places], or null if all factors are 1
};
void embedding_tables_places(HostStream stream, TablePlacesArgs const& args);
void embedding_tables_places(CudaStream stream, TablePlacesArgs const& args);

/// Sums the gradients of the distinct rows of many tables: values[u, : width(t)] = sum over the
/// positions p of the u-th distinct row, which belongs to table t, of factor(p) *
/// output_gradient[bag(p), first_column(t) : + width(t)], for u < *unique_count, and
/// table_starts[t] = the number of distinct rows of earlier tables. With argmax, only those columns
/// of a table of Pooling::max are added whose argmax is p. Elements beyond are not written.
/// Accumulated in float. Deterministic: in the order of the positions on the host; on CUDA by a
/// tree that depends on the arguments alone.
struct TablesGradientArgs {
  TablePlan const* plan;          ///< host memory, read before the call returns
  TableDescriptor const* tables;  ///< plan->tables in device memory
  std::int64_t const* first_rows;
  std::int64_t batch;
  std::int64_t places;
  /// A result of deduplicate(), as are starts, positions, ranks and unique_count.
  std::int64_t const* unique_rows;
  std::int32_t const* starts;
  std::int32_t const* positions;
  std::int32_t const* ranks;
  std::int64_t const* unique_count;
  std::int32_t const* bags_of_places;  ///< from embedding_tables_places()
  float const* factors;                ///< from embedding_tables_places(), or null if all are 1
  void const* output_gradient;         ///< [batch, plan->width] of `gradient_dtype`
  DType gradient_dtype;                ///< float32, float16 or bfloat16
  std::int64_t gradient_stride = 0;    ///< elements from one row to the next; 0: plan->width
  float* values;                       ///< [places, plan->widest]
  std::int64_t* table_starts;          ///< [tables + 1]
  void* workspace;                     ///< embedding_tables_gradient_workspace_bytes(…)
  /// From embedding_tables_lookup(), or null if all bags of tables of Pooling::max have one id.
  std::int32_t const* argmax = nullptr;
};
/// Returns whether four neighbouring columns of the output gradient of a table can be loaded at
/// once, and 32 bits hold the numbers of the table's rows, of four columns of the gradient, and of
/// the bytes of a row.
[[nodiscard]] inline bool has_whole_gradient(TablesGradientArgs const& args,
                                             TableDescriptor const& table) {
  constexpr std::int64_t kMost = 0xFFFF'FFFF;
  auto const bytes = 4 * bytes_of(args.gradient_dtype);
  auto const stride = stride_or(args.gradient_stride, args.plan->width);
  return table.width % 4 == 0 && table.first_column % 4 == 0 && stride % 4 == 0 &&
         table.rows < kMost && table.width < kMost / 4 && args.batch * (stride / 4) < kMost &&
         reinterpret_cast<std::uintptr_t>(args.output_gradient) % bytes == 0;
}
/// Returns the bytes of workspace that embedding_tables_gradient() needs, without a query of the
/// device. Returns 0 on the host.
std::size_t embedding_tables_gradient_workspace_bytes(HostStream stream,
                                                      std::int64_t places,
                                                      std::int64_t widest);
std::size_t embedding_tables_gradient_workspace_bytes(CudaStream stream,
                                                      std::int64_t places,
                                                      std::int64_t widest);
void embedding_tables_gradient(HostStream stream, TablesGradientArgs const& args);
void embedding_tables_gradient(CudaStream stream, TablesGradientArgs const& args);

/// Computes the gradient of the weights of the ids of a lookup in many tables: weight_gradient[p] =
/// the dot product of the row of ids[p] with the gradient of its output row, 0 where the id is not
/// in the table, and for tables of other poolings than Pooling::sum. Added in float, in an order
/// that depends on the implementation (host or CUDA) and on the widths.
struct TablesWeightGradientArgs {
  TablePlan const* plan;          ///< host memory, read before the call returns
  TableDescriptor const* tables;  ///< plan->tables in device memory
  std::int64_t const* first_rows;
  std::int64_t batch;
  std::int64_t capacity;               ///< number of ids
  void const* rows;                    ///< from embedding_tables_places(), of `row_dtype`
  DType row_dtype;                     ///< int32 or int64
  std::int32_t const* bags_of_places;  ///< from embedding_tables_places()
  float const* output_gradient;        ///< [batch, plan->width]
  float* weight_gradient;              ///< [capacity]
};
void embedding_tables_weight_gradient(HostStream stream, TablesWeightGradientArgs const& args);
void embedding_tables_weight_gradient(CudaStream stream, TablesWeightGradientArgs const& args);

}  // namespace msstream::ops::kernels
