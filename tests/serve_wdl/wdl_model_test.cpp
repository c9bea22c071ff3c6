// SPDX-License-Identifier: Apache-2.0
#include "datasets/counter_random.hpp"
#include "ops/ops_fixture.hpp"
#include "wdl_branches.hpp"
#include "wdl_fused.hpp"
#include "wdl_queries.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using serve_wdl::TableForm;
using serve_wdl::WdlBranches;
using serve_wdl::WdlFused;
using serve_wdl::WdlOptions;
using serve_wdl::WdlQueries;
using serve_wdl::WdlWeights;

WdlOptions small() {
  WdlOptions options;
  options.fields = 3;
  options.hotness = 2;
  options.table_rows = 20;
  options.embedding_dim = 5;
  options.continuous = 2;
  options.layers = {6, 4};
  options.batch = 7;
  options.queries = 3;
  return options;
}

/// Computes the answers of the wide-and-deep model in double precision, for a query with the keys
/// of all tables in one field.
std::vector<double> reference(WdlWeights const& weights,
                              std::int64_t hotness,
                              serve::Query const& query) {
  auto const* const keys = static_cast<std::int64_t const*>(query.values[0].data);
  auto const* const dense = static_cast<float const*>(query.values[1].data);
  auto const columns = weights.dense_columns();
  std::vector<double> answers;
  for (std::int64_t row = 0; row < query.rows; ++row) {
    std::vector<double> input;
    double logit = weights.linear.bias[0];
    for (std::int64_t field = 0; field < weights.fields(); ++field) {
      auto const& table = weights.tables[static_cast<std::size_t>(field)];
      std::vector<double> pooled(static_cast<std::size_t>(weights.embedding_dim));
      for (std::int64_t k = 0; k < hotness; ++k) {
        auto const key = keys[(row * weights.fields() + field) * hotness + k];
        auto const at = datasets::mix64(static_cast<std::uint64_t>(key)) %
                        static_cast<std::uint64_t>(table.rows);
        logit += table.wide[at];
        for (std::size_t d = 0; d < pooled.size(); ++d) {
          pooled[d] += table.deep[at * pooled.size() + d];
        }
      }
      input.insert(input.end(), pooled.begin(), pooled.end());
    }
    for (std::int64_t k = 0; k < columns; ++k) {
      input.push_back(dense[row * columns + k]);
      logit += input.back() * weights.linear.weight[static_cast<std::size_t>(k)];
    }
    for (auto const& layer : weights.layers) {
      std::vector<double> output(layer.bias.begin(), layer.bias.end());
      for (std::size_t in = 0; in < input.size(); ++in) {
        for (std::size_t out = 0; out < output.size(); ++out) {
          output[out] += input[in] * layer.weight[in * output.size() + out];
        }
      }
      if (&layer != &weights.layers.back()) {
        for (auto& value : output) {
          value = std::max(value, 0.0);
        }
      }
      input = output;
    }
    answers.push_back(1 / (1 + std::exp(-(logit + input[0]))));
  }
  return answers;
}

template <class R>
class WdlModelTest : public OpsTest<R> {
 protected:
  template <class Model>
  std::vector<Floats> answers(WdlOptions options, TableForm form) {
    options.tables = form;
    auto const weights = serve_wdl::make_weights(options, 0);
    WdlQueries const queries(options, weights);
    load::Workload<R> const workload{.inputs = Model::inputs(weights, options.hotness),
                                     .outputs_per_row = 1,
                                     .query_rows = options.batch,
                                     .build = {}};
    Model const model(this->device(), weights, 0);
    std::vector<Floats> all;
    for (auto const& query : queries.all()) {
      all.push_back(load::lone_answer(this->device(), workload, model, query, options.batch));
    }
    return all;
  }
  /// Expects both forms to answer as the reference does, and returns the answers of the fused one.
  std::vector<Floats> expect_answers(WdlOptions options, double tolerance) {
    auto const weights = serve_wdl::make_weights(options, 0);
    auto const fused = answers<WdlFused<R>>(options, TableForm::fused);
    auto const branches = answers<WdlBranches<R>>(options, TableForm::branches);
    options.tables = TableForm::fused;
    WdlQueries const queries(options, weights);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      auto const expected = reference(weights, options.hotness, queries.all()[i]);
      expect_near(fused[i], expected, tolerance);
      expect_near(branches[i], expected, tolerance);
    }
    return fused;
  }
};
TYPED_TEST_SUITE(WdlModelTest, Runtimes, RuntimeNames);

TYPED_TEST(WdlModelTest, both_forms_are_the_same_mathematics) {
  for (std::int64_t const continuous : {0, 2, 8}) {
    SCOPED_TRACE(continuous);
    auto options = small();
    options.continuous = continuous;
    auto const fused = this->expect_answers(options, 1e-5);
    EXPECT_NE(fused[0], fused[1]);
  }
}

TYPED_TEST(WdlModelTest, layers_can_be_of_half_precision) {
  auto options = small();
  auto const exact = this->template answers<WdlFused<TypeParam>>(options, TableForm::fused);
  auto const exact_bytes =
      WdlBranches<TypeParam>(this->device(), serve_wdl::make_weights(options, 0), 0).weight_bytes();
  // Each of three layers rounds its weights and its output.
  for (auto const& [precision, tolerance] :
       {std::pair{Precision::bf16, 1.0 / 64}, {Precision::fp16, 1.0 / 512}}) {
    options.precision = precision;
    auto const rounded = this->expect_answers(options, tolerance);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_NE(rounded[i], exact[i]) << "the layers were not computed in half precision";
    }
    auto const weights = serve_wdl::make_weights(options, 0);
    EXPECT_LT(WdlBranches<TypeParam>(this->device(), weights, 0).weight_bytes(), exact_bytes);
  }
}

TEST(WdlWeights, first_layer_takes_rows_of_whole_vectors) {
  for (std::int64_t continuous = 0; continuous < 9; ++continuous) {
    auto options = small();
    options.continuous = continuous;
    auto const weights = serve_wdl::make_weights(options, 0);
    EXPECT_GE(weights.dense_columns(), std::max<std::int64_t>(continuous, 1));
    EXPECT_EQ(weights.layers.front().inputs % 4, 0);
    EXPECT_EQ(weights.layers.front().inputs,
              weights.fields() * weights.embedding_dim + weights.dense_columns());
    EXPECT_EQ(weights.linear.inputs, weights.dense_columns());
    for (std::int64_t const fields : {1, 2, 5, 33}) {
      options.fields = fields;
      for (auto const& [precision, together] :
           {std::pair{Precision::fp32, 4}, {Precision::bf16, 8}, {Precision::fp16, 8}}) {
        options.precision = precision;
        options.tables = TableForm::fused;
        auto const fused = serve_wdl::make_weights(options, 0);
        EXPECT_EQ((fields * fused.packed_width() + fused.dense_columns()) % together, 0);
        options.tables = TableForm::branches;
        auto const branches = serve_wdl::make_weights(options, 0);
        EXPECT_EQ((fields * branches.embedding_dim + branches.dense_columns()) % together, 0);
      }
    }
  }
}

TEST(WdlWeights, too_large_for_float16_are_refused) {
  auto weights = serve_wdl::make_weights(small(), 0);
  weights.layers[1].weight[3] = -65'504.0F;
  serve_wdl::require_float16(weights);
  weights.layers[1].weight[3] = -65'520.0F;
  expect_refused([&] { serve_wdl::require_float16(weights); },
                 "--precision fp16: layer 1 has a weight of -65520; expected at most 65504");
}

TEST(WdlWeights, variants_differ) {
  auto const options = small();
  EXPECT_NE(serve_wdl::make_weights(options, 0).tables[0].deep,
            serve_wdl::make_weights(options, 1).tables[0].deep);
}

}  // namespace
}  // namespace msstream::testing
