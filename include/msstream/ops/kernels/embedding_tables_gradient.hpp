// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/embedding_tables.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The places of ids: those of `ids`, and behind them one a bag if a table has a default id.
[[nodiscard]] inline std::int64_t place_capacity(TablesLookupArgs const& bags) {
  auto const& plan = *bags.plan;
  auto const all_bags = static_cast<std::int64_t>(plan.tables.size()) * bags.batch;
  return bags.capacity + (plan.has_default_ids ? all_bags : 0);
}

/// Tells for each place of a lookup the row among those of all tables, first_rows[table] + id, or
/// -1 where there is no valid id; table * batch + bag; and the factor of the place: its weight over
/// the divisor of its bag. Places of no bag get a row of -1, and the rest untouched.
struct TablePlacesArgs {
  TablesLookupArgs bags;  ///< all but the report and the output; no table takes the maximum
  std::int64_t const* first_rows;  ///< plan->first_rows in device memory
  void* rows;                      ///< [places] of `row_dtype`
  DType row_dtype;                 ///< int32 or int64
  std::int32_t* bags_of_places;    ///< [places]; tables * batch is below 2^31
  float* factors;                  ///< [places], or null where all are 1
};
void embedding_tables_places(HostStream stream, TablePlacesArgs const& args);
void embedding_tables_places(CudaStream stream, TablePlacesArgs const& args);

/// values[u, : width(t)] = sum over the places p of the u-th distinct row, which is of table t, of
/// factor(p) * output_gradient[bag(p), first_column(t) : + width(t)], for u < *unique_count; and
/// table_starts[t] = how many of the distinct rows are of earlier tables. What lies beyond is not
/// touched. Accumulated in float. Deterministic: in the order of the places on the host, on CUDA by
/// a tree that depends on the arguments alone.
struct TablesGradientArgs {
  TablePlan const* plan;          ///< the host's, read before the call returns
  TableDescriptor const* tables;  ///< plan->tables in device memory
  std::int64_t const* first_rows;
  std::int64_t batch;
  std::int64_t places;
  std::int64_t const* unique_rows;  ///< of the places' rows: as deduplicate() writes them
  std::int32_t const* starts;
  std::int32_t const* positions;
  std::int32_t const* ranks;
  std::int64_t const* unique_count;
  std::int32_t const* bags_of_places;  ///< as embedding_tables_places() writes them
  float const* factors;                ///< or null
  void const* output_gradient;         ///< [batch, plan->width] of `gradient_dtype`
  DType gradient_dtype;                ///< float32, float16 or bfloat16
  float* values;                       ///< [places, plan->widest]
  std::int64_t* table_starts;          ///< [tables + 1]
  void* workspace;                     ///< embedding_tables_gradient_workspace_bytes(…)
};
/// Asks no device; 0 on the host.
std::size_t embedding_tables_gradient_workspace_bytes(HostStream stream,
                                                      std::int64_t places,
                                                      std::int64_t widest);
std::size_t embedding_tables_gradient_workspace_bytes(CudaStream stream,
                                                      std::int64_t places,
                                                      std::int64_t widest);
void embedding_tables_gradient(HostStream stream, TablesGradientArgs const& args);
void embedding_tables_gradient(CudaStream stream, TablesGradientArgs const& args);

}  // namespace msstream::ops::kernels
