// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/elementwise/normalize_on_ranks.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/optimizer/dense_update.hpp"
#include "ops/optimizer/table_update.hpp"
#include "ops_cases.hpp"

#include <msstream/ops/random_draws.hpp>

#include <cstdint>
#include <memory>
#include <source_location>
#include <vector>

namespace fake_cuda {

/// Returns the cases of operations of training: random numbers, normalisation, metrics and updates.
inline std::vector<Case> training_cases() {
  using ops::Pooling;
  return {
      {"random_normal",
       [](Inputs& in) {
         drop(ops::random_normal(in.device, {kBatch, 3}, {1, "a"}));
       },
       kernels(1)},
      {"random_integers_of_a_step",
       [](Inputs& in) {
         drop(ops::random_integers(in.random, "a", {kBatch, 3}, 0, 9));
       },
       kernels(1)},
      {"random_normal_of_a_step",
       [](Inputs& in) {
         drop(ops::random_normal(in.random, "a", {kBatch, 3}));
       },
       kernels(1)},
      {"advance_random", [](Inputs& in) { in.random.advance(); }, kernels(1)},
      {"dropout",
       [](Inputs& in) { drop(ops::dropout(in.matrix, {.rate = 0.5F}, in.random, "a")); },
       kernels(1)},
      {"dropout_gradient",
       [](Inputs& in) {
         drop(ops::dropout_gradient(in.gradient, in.random.tensor(), {.rate = 0.5F}, "a"));
       },
       kernels(1)},
      {"dot_interaction",
       [](Inputs& in) {
         drop(ops::dot_interaction(in.matrix, in.long_matrix.reshaped({kBatch, 64, kWidth})));
       },
       kernels(1)},
      {"dot_interaction_gradient",
       [](Inputs& in) {
         auto const two = in.long_matrix.rows(0, 2 * kBatch).reshaped({kBatch, 2, kWidth});
         drop(ops::dot_interaction_gradient(in.matrix, two, in.interacted));
       },
       kernels(1)},
      {"gelu", [](Inputs& in) { drop(ops::gelu(in.matrix)); }, kernels(1)},
      {"gelu_gradient",
       [](Inputs& in) { drop(ops::gelu_gradient(in.matrix, in.gradient)); },
       kernels(1)},
      {"prelu", [](Inputs& in) { drop(ops::prelu(in.matrix, in.bias)); }, kernels(1)},
      // The sums of a weight for all columns take another launch; many rows take one more.
      {"prelu_gradient",
       [](Inputs& in) { drop(ops::prelu_gradient(in.matrix, in.bias, in.gradient)); },
       kernels(1)},
      {"prelu_gradient_of_one_weight_and_many_rows",
       [](Inputs& in) {
         drop(ops::prelu_gradient(
             in.long_matrix, in.scalar, in.long_matrix, {.left = false, .right = true}));
       },
       kernels(3)},
      {"dice", [](Inputs& in) { drop(ops::dice(in.matrix, in.bias, in.running)); }, kernels(2)},
      {"batch_norm",
       [](Inputs& in) { drop(ops::batch_norm(in.matrix, in.bias, in.bias, in.running)); },
       kernels(2)},
      {"statistics_of_ranks",
       [](Inputs& in) {
         auto const here = std::source_location::current();
         auto const sums = ops::detail::column_sums("batch_norm", in.matrix, {}, here);
         drop(ops::detail::finish_columns("batch_norm", sums, in.running, {}, here));
       },
       kernels(2)},
      {"batch_norm_of_many_rows",
       [](Inputs& in) { drop(ops::batch_norm(in.long_matrix, in.bias, in.bias, in.running)); },
       kernels(3)},
      {"batch_norm_inference",
       [](Inputs& in) { drop(ops::batch_norm_inference(in.matrix, in.bias, in.bias, in.running)); },
       kernels(1)},
      {"batch_norm_gradient",
       [](Inputs& in) {
         drop(ops::batch_norm_gradient(in.matrix, in.bias, in.statistics, in.gradient));
       },
       kernels(2)},
      {"l2_normalize", [](Inputs& in) { drop(ops::l2_normalize(in.matrix)); }, kernels(1)},
      {"l2_normalize_gradient",
       [](Inputs& in) { drop(ops::l2_normalize_gradient(in.matrix, in.gradient)); },
       kernels(1)},
      {"update_one_metric", [](Inputs& in) { in.auc.update(in.column, in.column); }, kernels(1)},
      {"update_four_metrics",
       [](Inputs& in) { in.metrics.update(in.column, in.column); },
       kernels(1)},
      {"advance_step", [](Inputs& in) { in.step.advance(in.rule); }, kernels(1)},
      {"update_dense",
       [](Inputs& in) {
         std::vector<ops::DenseParameter<ms::Cuda>> const many(
             40, {in.weight, in.weight, in.weight_state});
         ops::update_dense(in.rule, in.step, many);
       },
       kernels(1)},
      // One launch updates parameters and writes their copies, which then need no cast.
      {"update_dense_with_copies",
       [](Inputs& in) {
         auto const here = std::source_location::current();
         ops::StepCounter<ops::detail::AnyRuntime> const& step = in.step;
         auto const copy = ops::detail::HalfCopy::make(in.weight, ms::DType::bfloat16);
         ops::detail::update_dense(
             in.rule, step, {{in.weight, in.weight, in.weight_state}}, {copy}, here);
         drop(ops::detail::halves_of({in.weight.any()}, ms::DType::bfloat16, here));
       },
       kernels(1)},
      {"set_rate", [](Inputs& in) { in.step.set_rate(0.5F); }, kernels(1)},
      {"advance_clipped",
       [](Inputs& in) {
         std::vector<ops::detail::NormInput> const all(60, {in.weight, 1, 1.0F});
         in.step.advance_clipped(
             in.rule, {.clip_norm = 1.0F}, all, std::source_location::current());
       },
       kernels(2)},
      {"squares_of_ranks",
       [](Inputs& in) {
         std::vector<ops::detail::NormInput> const all(60, {in.weight, 1, 1.0F});
         auto const here = std::source_location::current();
         auto const squares = in.step.squares_of({}, all, 30, here);
         in.step.advance_on_ranks(in.rule, {.clip_norm = 1.0F}, squares, here);
       },
       kernels(3)},
      {"update_dense_by_lamb",
       [](Inputs& in) {
         std::vector<ops::DenseParameter<ms::Cuda>> const many(
             40, {in.weight, in.weight, {in.weight, in.weight}});
         ops::update_dense(
             {.kind = ops::OptimizerKind::lamb, .learning_rate = 0.1F}, in.step, many);
       },
       kernels(3)},
      {"update_averages", [](Inputs& in) { in.averages.update(); }, kernels(1)},
      {"swap_averages",
       [](Inputs& in) {
         auto swapped = in.averages.swap_in();
         swapped.restore();
       },
       kernels(2)},
      {"update_rows",
       [](Inputs& in) {
         ops::update_rows(in.rule, in.step, in.table, in.row_gradients, in.table_state);
       },
       kernels(1)},
      {"update_rows_of_many_tables",
       [](Inputs& in) {
         std::vector<ops::TableParameter<ms::Cuda>> const many(
             40, {in.table, in.row_gradients, in.table_state});
         ops::update_rows(in.rule, in.step, many);
       },
       kernels(1)},
      {"update_rows_of_embedding_tables",
       [](Inputs& in) {
         ops::update_rows(in.rule,
                          in.step,
                          in.many_tables,
                          std::vector{in.table_state, in.table_state},
                          in.tables_gradients);
       },
       kernels(1 + 1)},
      // One launch finds the rows of the ids, one sorts them, and two compute and apply the
      // gradients of the tables of each type.
      {"update_tables",
       [](Inputs& in) {
         auto const here = std::source_location::current();
         ops::EmbeddingTables<ops::detail::AnyRuntime> const& tables = in.many_tables;
         ops::TableBags<ms::Cuda> const bags{.ids = in.ids, .batch = kBatch / 2};
         auto const gradient = in.gradient.reshaped({kBatch / 2, tables.width()});
         auto const all = std::make_shared<ops::detail::TablesGradient const>(
             ops::detail::group_tables(tables, bags, gradient.any(), {}, 0, here), nullptr, here);
         std::vector<ops::detail::TableUpdate> updates;
         for (std::int64_t t = 0; t < tables.tables(); ++t) {
           updates.push_back({ops::detail::weights_of(tables.table(t)),
                              ops::detail::TablePart{all, t, tables.first_row(t), kBatch},
                              in.table_state});
         }
         ops::detail::update_rows(in.rule, in.step, updates, here);
       },
       kernels(1 + 1 + 2 * 2)},
      {"update_rows_of_tables_of_all_types",
       [](Inputs& in) {
         std::vector<ops::TableParameter<ms::Cuda>> tables(
             40, {in.table, in.row_gradients, in.table_state});
         tables[3].table = in.half_table;
         tables[5].table = in.half_table;
         tables[7].table = in.brain_table;
         tables.insert(tables.end(), 4, tables[0]);
         ops::update_rows(in.rule, in.step, tables);
       },
       kernels(2 + 1 + 1)},
  };
}

}  // namespace fake_cuda
