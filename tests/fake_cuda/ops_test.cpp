// SPDX-License-Identifier: Apache-2.0
#include "ops_cases.hpp"
#include "training_cases.hpp"

#include <vector>

/// Tests of the CUDA calls of each operation: its kernel launches and matrix products. After a
/// warm-up, the memory for results and workspaces needs no calls.
namespace fake_cuda {
namespace {

std::vector<Case> cases() {
  using ops::Activation;
  using ops::Pooling;
  using Bags = ops::Bags<ms::Cuda>;
  return {
      {"hash_to_bucket", [](Inputs& in) { drop(ops::hash_to_bucket(in.ids, kRows)); }, kernels(1)},
      {"hash_columns",
       [](Inputs& in) {
         drop(ops::hash_to_bucket(in.ids.reshaped({1, in.ids.count()}),
                                  std::vector<std::int64_t>{kRows}));
       },
       kernels(1)},
      {"bucketize", [](Inputs& in) { drop(ops::bucketize(in.column, in.bias)); }, kernels(1)},
      {"embedding_lookup",
       [](Inputs& in) { drop(ops::embedding_lookup(in.table, Bags(in.ids))); },
       kernels(1)},
      {"jagged_embedding_lookup",
       [](Inputs& in) {
         drop(ops::embedding_lookup(in.table, in.many_ids, in.offsets, Pooling::mean));
       },
       kernels(1)},
      {"trapping_embedding_lookup",
       [](Inputs& in) {
         drop(ops::embedding_lookup(
             in.table, Bags(in.ids), {.out_of_range = ops::OutOfRange::trap}));
       },
       kernels(1)},
      {"deduplicate_in_one_block",
       [](Inputs& in) { drop(ops::deduplicate(Bags(in.ids), kRows)); },
       kernels(1)},
      {"deduplicate_by_sorting",
       [](Inputs& in) { drop(ops::deduplicate(Bags(in.many_ids), kRows)); },
       with_sort()},
      {"embedding_gradient",
       [](Inputs& in) {
         drop(ops::embedding_gradient(Bags(in.ids), in.unique, kRows, Pooling::sum, in.gradient));
       },
       kernels(1)},
      // Two launches combine the ids and values of the two parts; the other two are those of the
      // operation for one lookup.
      {"merge_row_gradients",
       [](Inputs& in) {
         drop(ops::merge_row_gradients<ms::Cuda>({in.row_gradients, in.row_gradients}, kRows));
       },
       kernels(2 + 1 + 1)},
      {"segment_sum",
       [](Inputs& in) {
         drop(ops::segment_reduce(in.matrix, in.offsets, ops::SegmentReduction::sum));
       },
       kernels(1)},
      {"sorted_segment_max",
       [](Inputs& in) {
         drop(ops::segment_reduce(
             in.matrix, {in.ids, kBatch, ops::SegmentIds::sorted}, ops::SegmentReduction::max));
       },
       kernels(2)},
      {"unsorted_segment_sum_in_any_order",
       [](Inputs& in) {
         drop(ops::segment_reduce(
             in.matrix, {in.ids, kBatch}, ops::SegmentReduction::sum, {.deterministic = false}));
       },
       kernels(1).exactly("cudaMemsetAsync", 1)},
      {"segment_reduce_gradient",
       [](Inputs& in) {
         drop(ops::segment_reduce_gradient(
             in.gradient, in.offsets, kBatch, ops::SegmentReduction::sum));
       },
       kernels(1)},
      {"segment_offsets",
       [](Inputs& in) { drop(ops::segment_offsets(in.ids, kBatch)); },
       kernels(1)},
      {"coo_bags", [](Inputs& in) { drop(ops::coo_bags(in.ids, in.ids, kBatch)); }, kernels(1)},
      {"lookup_of_many_tables",
       [](Inputs& in) {
         drop(ops::embedding_lookup(in.many_tables, {.ids = in.ids, .batch = kBatch / 2}));
       },
       kernels(1)},
      {"lookup_of_maxima_of_many_tables",
       [](Inputs& in) {
         ms::Tensor<std::int32_t, ms::Cuda> const argmax(in.device,
                                                         in.many_maxima.argmax_shape(kBatch / 4));
         drop(ops::embedding_lookup(
             in.many_maxima, {.ids = in.ids, .batch = kBatch / 4}, {.argmax = argmax}));
       },
       kernels(1)},
      // One launch finds the rows of the ids, one sorts them, and two add up their gradients.
      {"gradient_of_many_tables",
       [](Inputs& in) {
         drop(ops::embedding_tables_gradient(
             in.many_tables,
             {.ids = in.ids, .batch = kBatch / 2},
             in.gradient.reshaped({kBatch / 2, in.many_tables.width()})));
       },
       kernels(1 + 1 + 2)},
      {"weight_gradient_of_many_tables",
       [](Inputs& in) {
         drop(ops::embedding_tables_weight_gradient(
             in.many_tables,
             {.ids = in.ids, .batch = kBatch / 2},
             in.gradient.reshaped({kBatch / 2, in.many_tables.width()})));
       },
       kernels(1 + 1)},
      // One block sorts the ids, and a second launch numbers the groups of equal ids.
      {"unique_of_few_ids", [](Inputs& in) { drop(ops::unique(in.ids)); }, kernels(2)},
      {"gather_rows", [](Inputs& in) { drop(ops::gather_rows(in.table, in.ids)); }, kernels(1)},
      // One block finds the positions of each id; another launch writes the value at the last of
      // these positions.
      {"assign_rows",
       [](Inputs& in) { ops::assign_rows(in.table, in.matrix, in.ids); },
       kernels(1 + 1)},
      {"scatter_rows",
       [](Inputs& in) { drop(ops::scatter_rows(in.matrix, in.ids, kRows)); },
       kernels(2).exactly("cudaMemsetAsync", 1)},
      {"scatter_rows_gradient",
       [](Inputs& in) { drop(ops::scatter_rows_gradient(in.table, in.ids)); },
       kernels(1 + 2).exactly("cudaMemsetAsync", 1)},
      {"jagged_to_dense",
       [](Inputs& in) { drop(ops::jagged_to_dense(in.matrix, in.offsets, 4)); },
       kernels(1)},
      {"dense_to_jagged",
       [](Inputs& in) {
         drop(ops::dense_to_jagged(in.stacked_output, in.offsets.rows(0, 3), kBatch));
       },
       kernels(1)},
      {"repeat_rows",
       [](Inputs& in) { drop(ops::repeat_rows(in.matrix, in.offsets, 4)); },
       kernels(1)},
      {"segment_ids", [](Inputs& in) { drop(ops::segment_ids(in.offsets, 4)); }, kernels(1)},
      {"joined_bags",
       [](Inputs& in) {
         drop(ops::joined_bags(
             {ops::Bags<ms::Cuda>(in.ids), ops::Bags<ms::Cuda>(in.many_ids, in.offsets)}));
       },
       kernels(3)},
      {"lengths_to_offsets", [](Inputs& in) { drop(ops::lengths_to_offsets(in.ids)); }, kernels(1)},
      {"lengths_to_offsets_of_many",
       [](Inputs& in) { drop(ops::lengths_to_offsets(in.many_ids)); },
       kernels(1).exactly("cudaMemsetAsync", 1)},
      {"offsets_to_lengths",
       [](Inputs& in) { drop(ops::offsets_to_lengths(in.offsets)); },
       kernels(1)},
      {"jagged_softmax",
       [](Inputs& in) { drop(ops::jagged_softmax(in.matrix, in.offsets)); },
       kernels(1)},
      {"top_k", [](Inputs& in) { drop(ops::top_k(in.matrix, 3)); }, kernels(1)},
      {"update_embedding_of_few_ids",
       [](Inputs& in) {
         ops::update_embedding(in.rule,
                               in.step,
                               in.table,
                               in.table_state,
                               Bags(in.ids),
                               in.unique,
                               Pooling::sum,
                               in.gradient);
       },
       kernels(1 + 1)},
      {"dense",
       [](Inputs& in) { drop(ops::dense(in.matrix, in.weight, in.bias, Activation::relu)); },
       products(1, 1)},
      // The activation of float32 is a launch of its own; in half precision its sums are kept.
      {"dense_of_gelu",
       [](Inputs& in) { drop(ops::dense(in.matrix, in.weight, in.bias, Activation::gelu_tanh)); },
       products(1, 1, 1)},
      {"dense_of_gelu_in_half_precision",
       [](Inputs& in) {
         using Half = ms::Tensor<ms::bfloat16, ms::Cuda>;
         Half const matrix(in.device, {kBatch, kWidth});
         Half const weight(in.device, {kWidth, kWidth});
         Half const bias(in.device, {kWidth});
         drop(ops::dense(matrix, weight, bias, Activation::gelu_tanh));
       },
       products(1, 2)},
      {"dense_of_one_output",
       [](Inputs& in) { drop(ops::dense(in.matrix, in.weight_of_one, in.scalar)); },
       kernels(1)},
      {"dense_gradient",
       [](Inputs& in) {
         drop(ops::dense_gradient(
             in.matrix, in.weight, in.matrix, Activation::none, in.gradient, true));
       },
       products(2, 1)},
      {"dense_gradient_of_relu",
       [](Inputs& in) {
         drop(ops::dense_gradient(
             in.matrix, in.weight, in.matrix, Activation::relu, in.gradient, true));
       },
       products(2, 1, 1)},
      {"dense_gradient_of_gelu",
       [](Inputs& in) {
         drop(ops::dense_gradient(
             in.matrix, in.weight, in.matrix, Activation::gelu_tanh, in.gradient, true));
       },
       products(2, 0, 1)},
      {"dense_gradient_of_one_output",
       [](Inputs& in) {
         drop(ops::dense_gradient(
             in.matrix, in.weight_of_one, in.column, Activation::none, in.column, true));
       },
       kernels(2)},
      {"dense_of_stacked_layers",
       [](Inputs& in) {
         drop(ops::dense(in.matrix, in.stacked_weight, in.stacked_bias, Activation::relu));
       },
       products(1, 1)},
      {"dense_gradient_of_stacked_layers",
       [](Inputs& in) {
         drop(ops::dense_gradient(in.matrix,
                                  in.stacked_weight,
                                  in.stacked_output,
                                  Activation::none,
                                  in.stacked_output,
                                  true));
       },
       products(2, 0, 2)},
      // The batch is computed in parts: one launch adds the results of the parts, and two launches
      // sum the columns.
      {"dense_gradient_of_a_long_batch",
       [](Inputs& in) {
         auto const& matrix = in.long_matrix;
         drop(ops::dense_gradient(matrix, in.weight, matrix, Activation::none, matrix, true));
       },
       products(2, 0, 3)},
      {"dense_gradient_of_a_long_batch_in_uneven_parts",
       [](Inputs& in) {
         auto const matrix = in.long_matrix.rows(0, 1031);
         drop(ops::dense_gradient(matrix, in.weight, matrix, Activation::none, matrix, true));
       },
       products(3, 0, 3)},
      {"mix_experts",
       [](Inputs& in) {
         drop(ops::mix_experts<ms::Cuda>({in.stacked_output}, in.logits, {{0, 1}, {1}}));
       },
       kernels(1)},
      {"mix_experts_gradient",
       [](Inputs& in) {
         drop(ops::mix_experts_gradient<ms::Cuda>(
             {in.stacked_output}, {{in.logits, {{0, 1}, {1}}}}, in.stacked_output, {true}));
       },
       kernels(1)},
      {"hash_to_tables",
       [](Inputs& in) { drop(ops::hash_to_tables(in.tables, ms::ops::Bags(in.ids))); },
       kernels(1)},
      {"matmul_transposed_with_a_long_sum",
       [](Inputs& in) {
         drop(ops::matmul(in.long_matrix, in.long_matrix, {.transpose_left = true}));
       },
       products(1, 0, 1)},
      {"matmul", [](Inputs& in) { drop(ops::matmul(in.matrix, in.weight)); }, products(1, 0)},
      {"add",
       [](Inputs& in) {
         drop(ops::add<ms::Cuda>({in.matrix, in.gradient, in.matrix}));
       },
       kernels(1)},
      {"scale", [](Inputs& in) { drop(ops::scale(in.matrix, 2.0F)); }, kernels(1)},
      {"sigmoid", [](Inputs& in) { drop(ops::sigmoid(in.matrix)); }, kernels(1)},
      {"sigmoid_gradient",
       [](Inputs& in) { drop(ops::sigmoid_gradient(in.matrix, in.gradient)); },
       kernels(1)},
      {"sum", [](Inputs& in) { drop(ops::sum(in.matrix)); }, kernels(1)},
      {"mean", [](Inputs& in) { drop(ops::mean(in.matrix)); }, kernels(1)},
      {"broadcast",
       [](Inputs& in) { drop(ops::broadcast(in.scalar, 1.0F, in.matrix.shape())); },
       kernels(1)},
      {"concat",
       [](Inputs& in) {
         drop(ops::concat<ms::Cuda>({in.matrix, in.column, in.matrix}));
       },
       kernels(1)},
      {"split",
       [](Inputs& in) {
         std::vector<std::int64_t> const widths{kWidth / 2, kWidth / 2};
         drop(ops::split(in.matrix, std::span<std::int64_t const>(widths), {true, true}));
       },
       kernels(1)},
      {"bce_with_logits",
       [](Inputs& in) { drop(ops::bce_with_logits(in.column, in.column)); },
       kernels(1)},
      {"weighted_bce_with_logits",
       [](Inputs& in) {
         drop(
             ops::bce_with_logits(in.column, in.column, {.weight = in.column, .pos_weight = 2.0F}));
       },
       kernels(1)},
      {"scale_by_scalar",
       [](Inputs& in) { drop(ops::scale_by_scalar(in.matrix, in.scalar, 1.0F)); },
       kernels(1)},
      {"add_of_two", [](Inputs& in) { drop(ops::add(in.matrix, in.gradient)); }, kernels(1)},
      {"subtract_a_row", [](Inputs& in) { drop(ops::subtract(in.matrix, in.bias)); }, kernels(1)},
      {"multiply_by_a_column",
       [](Inputs& in) { drop(ops::multiply(in.matrix, in.column)); },
       kernels(1)},
      {"divide_by_a_scalar",
       [](Inputs& in) { drop(ops::divide(in.matrix, in.scalar)); },
       kernels(1)},
      {"multiply_by_a_view_of_rank_4",
       [](Inputs& in) {
         drop(ops::multiply(in.matrix.reshaped({4, 4, 4, 16}), in.bias.reshaped({4, 1, 4, 1})));
       },
       kernels(1)},
      // Summing a small number of rows takes only one launch.
      {"add_gradient_of_a_row",
       [](Inputs& in) { drop(ops::add_gradient(in.matrix.shape(), in.bias.shape(), in.gradient)); },
       kernels(1)},
      {"subtract_gradient",
       [](Inputs& in) {
         drop(ops::subtract_gradient(in.matrix.shape(), in.matrix.shape(), in.gradient));
       },
       kernels(1)},
      {"multiply_gradient",
       [](Inputs& in) { drop(ops::multiply_gradient(in.matrix, in.matrix, in.gradient)); },
       kernels(1)},
      {"multiply_gradient_of_a_row",
       [](Inputs& in) { drop(ops::multiply_gradient(in.matrix, in.bias, in.gradient)); },
       kernels(1 + 2)},
      {"multiply_gradient_of_one_operand",
       [](Inputs& in) {
         drop(ops::multiply_gradient(in.matrix, in.bias, in.gradient, {.right = false}));
       },
       kernels(1)},
      {"divide_gradient",
       [](Inputs& in) {
         drop(ops::divide_gradient(in.matrix.shape(), in.gradient, in.matrix, in.gradient));
       },
       kernels(2)},
      {"sum_to_a_scalar", [](Inputs& in) { drop(ops::sum_to(in.matrix, {})); }, kernels(1)},
      {"square", [](Inputs& in) { drop(ops::square(in.matrix)); }, kernels(1)},
      {"sqrt", [](Inputs& in) { drop(ops::sqrt(in.matrix)); }, kernels(1)},
      {"abs", [](Inputs& in) { drop(ops::abs(in.matrix)); }, kernels(1)},
      {"sqrt_abs", [](Inputs& in) { drop(ops::sqrt_abs(in.matrix, 1.0F)); }, kernels(1)},
      {"relu", [](Inputs& in) { drop(ops::relu(in.matrix)); }, kernels(1)},
      {"exp", [](Inputs& in) { drop(ops::exp(in.matrix)); }, kernels(1)},
      {"log", [](Inputs& in) { drop(ops::log(in.matrix)); }, kernels(1)},
      {"sqrt_abs_gradient",
       [](Inputs& in) { drop(ops::sqrt_abs_gradient(in.matrix, 1.0F, in.gradient)); },
       kernels(1)},
      {"transpose", [](Inputs& in) { drop(ops::transpose(in.matrix)); }, kernels(1)},
      {"add_identity", [](Inputs& in) { drop(ops::add_identity(in.weight)); }, kernels(1)},
      {"sum_of_rows", [](Inputs& in) { drop(ops::sum(in.matrix, 1)); }, kernels(1)},
      {"mean_of_columns", [](Inputs& in) { drop(ops::mean(in.matrix, 0)); }, kernels(1)},
      {"max_of_rows", [](Inputs& in) { drop(ops::max(in.matrix, -1)); }, kernels(1)},
      {"min_of_columns", [](Inputs& in) { drop(ops::min(in.matrix, 0)); }, kernels(1)},
      {"sum_of_a_long_row", [](Inputs& in) { drop(ops::sum(in.row, 1)); }, kernels(2)},
      {"sum_of_a_thousand_rows", [](Inputs& in) { drop(ops::sum(in.table, 0)); }, kernels(1)},
      {"sum_of_long_columns",
       [](Inputs& in) {
         drop(ops::sum(in.table.reshaped({4 * kRows, kWidth / 4}), 0));
       },
       kernels(2)},
      {"sum_gradient",
       [](Inputs& in) { drop(ops::sum_gradient(in.column, in.matrix.shape(), 1)); },
       kernels(1)},
      {"extremum_gradient",
       [](Inputs& in) { drop(ops::extremum_gradient(in.matrix, in.column, in.column, 1)); },
       kernels(2)},
      {"softmax", [](Inputs& in) { drop(ops::softmax(in.matrix)); }, kernels(1)},
      {"softmax_of_a_long_row", [](Inputs& in) { drop(ops::softmax(in.row)); }, kernels(1)},
      {"softmax_with_lengths",
       [](Inputs& in) { drop(ops::softmax(in.matrix, in.ids)); },
       kernels(1)},
      {"softmax_gradient",
       [](Inputs& in) { drop(ops::softmax_gradient(in.matrix, in.gradient)); },
       kernels(1)},
      {"attention_scores",
       [](Inputs& in) { drop(ops::attention_scores(in.matrix, in.gradient, {.lengths = in.ids})); },
       products(1, 0, 1)},
      {"attention_scores_gradient",
       [](Inputs& in) {
         Floats const scores(in.device, {kBatch, kBatch});
         drop(ops::attention_scores_gradient(in.matrix, in.gradient, scores, scores));
       },
       products(2, 0, 1)},
      {"attention",
       [](Inputs& in) { drop(ops::attention(in.matrix, in.matrix, in.gradient)); },
       products(2, 0, 1)},
      {"attention_of_half_precision",
       [](Inputs& in) {
         ms::Tensor<ms::bfloat16, ms::Cuda> const x(in.device, in.matrix.shape());
         drop(ops::attention(x, x, x));
       },
       products(2, 0, 1)},
      {"factorization_machine",
       [](Inputs& in) {
         ms::Tensor<ms::float16, ms::Cuda> const x(in.device, {kBatch, 3, 4});
         drop(ops::factorization_machine(x));
       },
       kernels(1)},
      {"factorization_machine_gradient",
       [](Inputs& in) {
         ms::Tensor<float, ms::Cuda> const x(in.device, {kBatch, 3, 4});
         drop(ops::factorization_machine_gradient(x, in.column.reshaped({kBatch, 1})));
       },
       kernels(1)},
      {"softmax_cross_entropy",
       [](Inputs& in) { drop(ops::softmax_cross_entropy(in.matrix, in.ids)); },
       kernels(1)},
      {"layer_norm",
       [](Inputs& in) { drop(ops::layer_norm(in.matrix, in.bias, in.bias)); },
       kernels(1)},
      {"layer_norm_gradient",
       [](Inputs& in) {
         ops::LayerNormResult<ms::Cuda> const result{in.matrix, in.column, in.column};
         drop(ops::layer_norm_gradient(in.matrix, in.bias, result, in.gradient));
       },
       kernels(1)},
      {"layer_norm_gradient_of_the_input",
       [](Inputs& in) {
         ops::LayerNormResult<ms::Cuda> const result{in.matrix, in.column, in.column};
         drop(ops::layer_norm_gradient(
             in.matrix, in.bias, result, in.gradient, {.parameters = false}));
       },
       kernels(1)},
      {"layer_norm_gradient_of_a_long_row",
       [](Inputs& in) {
         auto const row = in.row.reshaped({1, in.row.count()});
         Floats const one(in.device, {1});
         drop(ops::layer_norm_gradient(row, in.row, {row, one, one}, row));
       },
       kernels(2)},
      {"layer_norm_gradient_of_many_rows",
       [](Inputs& in) {
         auto const rows = in.row.reshaped({5000, 4});
         auto const four = in.bias.reshaped({4, 4}).rows(0, 1).reshaped({4});
         Floats const each(in.device, {5000});
         drop(ops::layer_norm_gradient(rows, four, {rows, each, each}, rows));
       },
       kernels(2)},
  };
}

std::vector<Case> all_cases() {
  auto all = cases();
  auto const more = training_cases();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class OpBudget : public FakeCudaTest, public ::testing::WithParamInterface<Case> {};

INSTANTIATE_TEST_SUITE_P(Ops, OpBudget, ::testing::ValuesIn(all_cases()), [](auto const& tested) {
  return tested.param.name;
});

TEST_P(OpBudget, is_its_kernels_and_products) {
  Inputs inputs;
  BusyDevice const busy;
  repeat(kWarmUp, [&] { GetParam().issue(inputs); });
  EXPECT_TRUE(within(calls_of([&] { GetParam().issue(inputs); }), GetParam().budget));
}

/// If a launch fails in the middle of an operation, the earlier launches of the operation remain on
/// the stream.
TEST_P(OpBudget, throws_whichever_of_its_launches_fails_and_goes_on_afterwards) {
  Inputs inputs;
  GetParam().issue(inputs);
  auto const once = calls_of([&] { GetParam().issue(inputs); });
  std::uint64_t launches = 0;
  for (auto const* const call : {"cudaLaunchKernel", "cublasLtMatmul"}) {
    launches += once[call];
    for (std::uint64_t nth = 1; nth <= once[call]; ++nth) {
      {
        FailingCall const failing(call, nth);
        EXPECT_THROW(GetParam().issue(inputs), ms::RuntimeError) << call << " number " << nth;
      }
      auto const again = calls_of([&] { GetParam().issue(inputs); });
      EXPECT_EQ(again["cudaLaunchKernel"], once["cudaLaunchKernel"]);
      EXPECT_EQ(again["cublasLtMatmul"], once["cublasLtMatmul"]);
    }
  }
  EXPECT_GT(launches, 0U);
  inputs.device.default_group().synchronize();
}

using Dropout = FakeCudaTest;

TEST_F(Dropout, of_rate_0_makes_no_call) {
  Inputs inputs;
  BusyDevice const busy;
  auto const issue = [&] {
    drop(ops::dropout(inputs.matrix, {.rate = 0.0F}, inputs.random, "dropout"));
  };
  repeat(kWarmUp, issue);
  EXPECT_TRUE(within(calls_of(issue), kernels(0)));
}

}  // namespace
}  // namespace fake_cuda
