// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"
#include "inputs.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace benchmarks::shapes {

/// Tables that share the rows of a case among them, a batch of bags, and the gradient of their
/// lookup. A value: copies share the tensors.
template <class T, class Id>
class ManyTables {
 public:
  static constexpr std::int64_t kRows = kTableRows / kTables;  ///< of each table

  ManyTables(Device const& device, Case const& what)
      : weights_(weights_of(device, what)),
        tables_(device, described(what, weights_)),
        bags_{.ids = drawn_ids<Id>(device, {what.places()}, {.below = kRows, .skew = what.skew}),
              .batch = what.segments / kTables},
        gradient_(drawn_rows<T>(device, bags_.batch, tables_.width())) {}

  [[nodiscard]] ms::ops::TablesRowGradients<ms::Cuda> gradients() const {
    return ms::ops::embedding_tables_gradient(tables_, bags_, gradient_);
  }
  /// Computes the gradients, and returns how many rows and columns have one.
  [[nodiscard]] Touched touched(Case const& what) const {
    auto const starts = ms::to_host(gradients().table_starts);
    auto const widths = widths_of_tables(what);
    Touched touched;
    for (std::size_t table = 0; table < widths.size(); ++table) {
      auto const rows = static_cast<double>(starts[table + 1] - starts[table]);
      touched.rows += rows;
      touched.columns += rows * static_cast<double>(widths[table]);
    }
    return touched;
  }

  [[nodiscard]] std::vector<Tensor<T>> const& weights() const { return weights_; }
  [[nodiscard]] ms::ops::EmbeddingTables<ms::Cuda> const& tables() const { return tables_; }
  [[nodiscard]] ms::ops::TableBags<ms::Cuda> const& bags() const { return bags_; }
  [[nodiscard]] Tensor<T> const& gradient() const { return gradient_; }

 private:
  using Table = ms::ops::EmbeddingTable<ms::Cuda>;

  static std::vector<Tensor<T>> weights_of(Device const& device, Case const& what) {
    std::vector<Tensor<T>> weights;
    for (auto const width : widths_of_tables(what)) {
      weights.push_back(drawn_rows<T>(device, kRows, width));
    }
    return weights;
  }
  static std::vector<Table> described(Case const& what, std::vector<Tensor<T>> const& weights) {
    std::vector<Table> tables;
    for (auto const& of_table : weights) {
      tables.push_back({.weights = of_table, .hotness = what.length});
    }
    return tables;
  }

  std::vector<Tensor<T>> weights_;
  ms::ops::EmbeddingTables<ms::Cuda> tables_;
  ms::ops::TableBags<ms::Cuda> bags_;
  Tensor<T> gradient_;
};

}  // namespace benchmarks::shapes
