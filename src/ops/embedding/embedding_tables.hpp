// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/embedding_tables.hpp"
#include "ops/common/bag_view.hpp"

#include <msstream/ops/embedding_tables.hpp>

#include <cstdint>
#include <memory>
#include <optional>
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

[[nodiscard]] AnyTensor const& weights_of(EmbeddingTable<AnyRuntime> const& table);
/// Throws std::invalid_argument unless the bags fit the tables, as described at TableBags.
void require_bags(char const* name,
                  EmbeddingTables<AnyRuntime> const& tables,
                  TableBags<AnyRuntime> const& bags);
/// Returns whether a gradient of the lookup needs its argmax, because bags of a table of
/// Pooling::max may have several ids.
[[nodiscard]] bool needs_argmax(EmbeddingTables<AnyRuntime> const& tables,
                                TableBags<AnyRuntime> const& bags);
/// Throws std::invalid_argument if there is an argmax that does not have the shape of the lookup's.
void require_argmax(char const* name,
                    EmbeddingTables<AnyRuntime> const& tables,
                    TableBags<AnyRuntime> const& bags,
                    std::optional<TensorOf<std::int32_t>> const& argmax);
/// Returns all tensors that an operation on the tables and the bags reads.
[[nodiscard]] Reads reads_of(EmbeddingTables<AnyRuntime> const& tables,
                             TableBags<AnyRuntime> const& bags);
/// Adds the tensors of the bags to those that an operation reads.
void add_bags(TableBags<AnyRuntime> const& bags, Reads& read);
/// Returns an upper bound of the number of a table's rows that the bags look up.
[[nodiscard]] std::int64_t most_rows_of(EmbeddingTables<AnyRuntime> const& tables,
                                        TableBags<AnyRuntime> const& bags,
                                        std::int64_t table);
/// Returns the arguments of a lookup's kernel, except for the plan, the report, and the tensors
/// that it writes.
[[nodiscard]] kernels::TablesLookupArgs lookup_args(EmbeddingTables<AnyRuntime> const& tables,
                                                    TableBags<AnyRuntime> const& bags);

}  // namespace msstream::ops::detail
