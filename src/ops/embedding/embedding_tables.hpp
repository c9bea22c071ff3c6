// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/embedding_tables.hpp"
#include "ops/common/bag_view.hpp"

#include <msstream/ops/embedding_tables.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace msstream::ops::detail {

/// Embedding tables, and the plan by which kernels divide the work on them. The arrays of the plan
/// are in device memory. An operation declares plan_reads() for the arrays alone, or `read` for the
/// arrays and the tables.
struct TablesInUse {
  std::vector<EmbeddingTable<AnyRuntime>> tables;
  std::shared_ptr<kernels::TablePlan const> plan;
  TensorOf<std::uint8_t> descriptors_bytes;
  TensorOf<std::uint8_t> table_of_tile_bytes;
  TensorOf<std::uint8_t> first_rows_bytes;
  Reads read;

  [[nodiscard]] kernels::TableDescriptor const* descriptors() const noexcept {
    return reinterpret_cast<kernels::TableDescriptor const*>(descriptors_bytes.data());
  }
  [[nodiscard]] std::int32_t const* table_of_tile() const noexcept {
    return reinterpret_cast<std::int32_t const*>(table_of_tile_bytes.data());
  }
  [[nodiscard]] std::int64_t const* first_rows() const noexcept {
    return reinterpret_cast<std::int64_t const*>(first_rows_bytes.data());
  }
  [[nodiscard]] Reads plan_reads() const {
    return reads(descriptors_bytes, table_of_tile_bytes, first_rows_bytes);
  }
};

/// Throws std::invalid_argument unless the bags fit the tables, as described at TableBags.
void require_bags(char const* name,
                  EmbeddingTables<AnyRuntime> const& tables,
                  TableBags<AnyRuntime> const& bags);
/// Returns all tensors that an operation on the tables and the bags reads.
[[nodiscard]] Reads reads_of(EmbeddingTables<AnyRuntime> const& tables,
                             TableBags<AnyRuntime> const& bags);
/// Returns the arguments of a lookup's kernel, except for the plan, the report and the output.
[[nodiscard]] kernels::TablesLookupArgs lookup_args(EmbeddingTables<AnyRuntime> const& tables,
                                                    TableBags<AnyRuntime> const& bags);

}  // namespace msstream::ops::detail
