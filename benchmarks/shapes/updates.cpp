// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/optimizer/table_update.hpp"
#include "tables.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <vector>

namespace benchmarks::shapes {

namespace {

namespace ops = ms::ops;
using ops::OptimizerKind;
using ops::Pooling;

ops::OptimizerRule rule_of(Operation operation) {
  constexpr float kRate = 1e-3F;
  switch (operation) {
    case Operation::update_sgd:
      return {OptimizerKind::sgd, kRate};
    case Operation::update_adam:
      return {OptimizerKind::adam, kRate};
    default:
      return {OptimizerKind::rowwise_adagrad, kRate};
  }
}

/// Prepares an update of the rows of one table, with the grouping of the ids.
template <class T, class Id>
Prepared prepare_table(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  ops::Bags<ms::Cuda> const bags =
      drawn_ids<Id>(device, {what.segments, what.length}, {.below = kTableRows, .skew = what.skew});
  auto const table = drawn_rows<T>(device, kTableRows, what.width);
  auto const gradient = drawn_rows<T>(device, what.segments, what.width);
  auto const rule = rule_of(what.operation);
  auto const state = ops::make_state(device, rule.kind, table.shape());
  ops::StepCounter<ms::Cuda> step(device);
  step.advance(rule);
  return {[=] {
            auto const unique = ops::deduplicate(bags, kTableRows);
            ops::update_embedding(rule, step, table, state, bags, unique, Pooling::sum, gradient);
          },
          {},
          bytes_of(what, touched_by(ops::deduplicate(bags, kTableRows), what.width))};
}

/// Prepares an update of the rows of many tables, with the grouping of the ids.
template <class T, class Id>
Prepared prepare_tables(Workplace& workplace, Case const& what) {
  namespace detail = ops::detail;
  auto const& device = workplace.device();
  ManyTables<T, Id> const many(device, what);
  auto const rule = rule_of(what.operation);
  std::vector<ops::OptimizerState<ms::Cuda>> states;
  for (auto const& weights : many.weights()) {
    states.push_back(ops::make_state(device, rule.kind, weights.shape()));
  }
  ops::StepCounter<ms::Cuda> step(device);
  step.advance(rule);
  auto const capacity = std::min(ManyTables<T, Id>::kRows, many.bags().batch * what.length);
  auto const update = [=] {
    auto const here = std::source_location::current();
    auto const sums = std::make_shared<detail::TablesGradient const>(
        detail::group_tables(many.tables(), many.bags(), many.gradient().any(), {}, 0, here),
        nullptr,
        here);
    std::vector<detail::TableUpdate> updates;
    for (std::size_t table = 0; table < states.size(); ++table) {
      auto const number = static_cast<std::int64_t>(table);
      updates.push_back(
          {.table = many.weights()[table].any(),
           .gradient = detail::TablePart{sums, number, many.tables().first_row(number), capacity},
           .state = states[table]});
    }
    detail::update_rows(rule, step, updates, here);
  };
  return {update, {}, bytes_of(what, many.touched(what))};
}

}  // namespace

Prepared prepare_update(Workplace& workplace, Case const& what) {
  return with_row_type(what, [&]<class T>(std::type_identity<T>) {
    return with_id_type(what, [&]<class Id>(std::type_identity<Id>) {
      return what.operation == Operation::tables_update ? prepare_tables<T, Id>(workplace, what)
                                                        : prepare_table<T, Id>(workplace, what);
    });
  });
}

}  // namespace benchmarks::shapes
