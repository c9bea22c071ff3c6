// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_gradient.hpp"
#include "ops/common/bag_view.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <variant>

namespace msstream::detail {

class StreamGroup;

}  // namespace msstream::detail

namespace msstream::ops::detail {

/// The positions of a lookup in many tables, grouped by row, with all that the gradients of the
/// rows are sums of. Holds its tensors, so that the sums can be computed later: the ids may be
/// overwritten in the meantime, the output gradient may not.
struct GroupedTables {
  EmbeddingTables<AnyRuntime> tables;
  std::int64_t batch;
  std::int64_t places;
  UniqueRows<AnyRuntime> unique;
  TensorOf<std::int32_t> bags_of_places;
  std::optional<Floats> factors;  ///< null if all are 1
  AnyTensor output_gradient;
  std::optional<TensorOf<std::int32_t>> argmax;
  std::int64_t columns_before = 0;  ///< of the output gradient, which are not of the tables

  /// Returns the arguments of the kernels, except for the plan and what they write.
  [[nodiscard]] kernels::TablesGradientArgs args() const;
  /// Returns the tensors that an operation reads.
  [[nodiscard]] Reads reads() const;
};
/// Groups the positions of a lookup for its gradient, as ops::embedding_tables_gradient() does. The
/// tables' columns of the output gradient follow `columns_before` others.
[[nodiscard]] GroupedTables group_tables(EmbeddingTables<AnyRuntime> const& tables,
                                         TableBags<AnyRuntime> const& bags,
                                         AnyTensor const& output_gradient,
                                         std::optional<TensorOf<std::int32_t>> const& argmax,
                                         std::int64_t columns_before,
                                         std::source_location issued_at);

/// The gradients of the rows of many tables, which may be computed when they are first needed. An
/// optimizer that applies them at once needs them not at all. Not synchronised.
class TablesGradient {
 public:
  /// Holds gradients that are computed.
  explicit TablesGradient(TablesRowGradients<AnyRuntime> rows) : gradient_(std::move(rows)) {}
  /// Holds gradients that rows() computes on a stream group, or on that of its caller if the group
  /// is null, and within the name scope of this call.
  TablesGradient(GroupedTables grouped,
                 std::shared_ptr<msstream::detail::StreamGroup> group,
                 std::source_location issued_at);

  /// Returns the gradients. The first call computes them, if they are not computed yet.
  [[nodiscard]] TablesRowGradients<AnyRuntime> const& rows() const;
  /// Returns what the gradients are sums of, or null if they are computed.
  [[nodiscard]] GroupedTables const* grouped() const noexcept {
    auto const* const later = std::get_if<Later>(&gradient_);
    return later == nullptr ? nullptr : &later->grouped;
  }

 private:
  struct Later {
    GroupedTables grouped;
    std::shared_ptr<msstream::detail::StreamGroup> group;
    std::shared_ptr<std::string const> names;  ///< null outside every name scope
    std::source_location issued_at;
  };

  mutable std::variant<Later, TablesRowGradients<AnyRuntime>> gradient_;
};

}  // namespace msstream::ops::detail
