// SPDX-License-Identifier: Apache-2.0
#include "load/serve_run.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

namespace msstream::load {
namespace {

using ::testing::ElementsAre;

/// A model whose answer is the input value times the number of rows of the bucket, so that the
/// answers of each bucket have different bits.
class RowsModel : public ServedModel<Host> {
 public:
  using ServedModel::ServedModel;
  Tensor<float, Host> operator()(serve::Inputs<Host> const& inputs) const override {
    return ops::scale(inputs.get<float>("value"), static_cast<float>(inputs.rows()));
  }
  std::size_t weight_bytes() const override { return 0; }
};

class ServedAloneTest : public ::testing::Test {
 protected:
  static ServeOptions options() {
    ServeOptions chosen;
    chosen.runtime = cli::RuntimeChoice::host;
    chosen.replicas = 2;
    chosen.batch = 2;
    chosen.buckets = {1, 4, 8};
    chosen.check = true;
    return chosen;
  }
  std::vector<float> const values{3.0F, 5.0F};
  Workload<Host> workload{
      .inputs = {serve::field<float>("value", 1)},
      .outputs_per_row = 1,
      .query_rows = 2,
      .build = [](Device<Host> const&,
                  int variant) { return std::make_shared<RowsModel const>(variant); },
      .queries = {{.query = {.rows = 2, .values = {values}}}}};
};

TEST_F(ServedAloneTest, a_query_is_compared_with_its_own_bucket_alone) {
  run_alone(workload, options());
  ASSERT_THAT(workload.queries[0].expected, ElementsAre(ElementsAre(ElementsAre(12.0F, 20.0F))));
  EXPECT_TRUE(workload.queries[0].is_answer(1, std::vector{12.0F, 20.0F}));
  EXPECT_FALSE(workload.queries[0].is_answer(1, std::vector{24.0F, 40.0F})) << "of another bucket";
}

TEST_F(ServedAloneTest, queries_that_are_put_together_have_the_bits_of_any_bucket_that_holds_them) {
  auto chosen = options();
  chosen.max_batch_delay_us = 5;
  run_alone(workload, chosen);
  EXPECT_THAT(workload.queries[0].expected,
              ElementsAre(ElementsAre(ElementsAre(12.0F, 20.0F), ElementsAre(24.0F, 40.0F))));
}

TEST_F(ServedAloneTest, its_cost_is_that_of_its_operations) {
  run_alone(workload, options());
  EXPECT_EQ(workload.cost.operations, 3U) << "a copy, the model, a copy";
  EXPECT_GT(workload.cost.device_ns, 0);
}

TEST_F(ServedAloneTest, a_raw_loop_gives_the_answers_or_says_that_it_does_not) {
  run_alone(workload, options());
  RawLoop<Host> loop(workload, options(), 3);
  EXPECT_EQ(loop.threads(), 2) << "no more than replicas";
  EXPECT_GT(loop.run(0.001, 0.02), 0);
  workload.queries[0].expected[0][0][1] += 1;
  EXPECT_THROW((void)RawLoop<Host>(workload, options(), 1).run(0.001, 0.01), std::runtime_error);
}

}  // namespace
}  // namespace msstream::load
