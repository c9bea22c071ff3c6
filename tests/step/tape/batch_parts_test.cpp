// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/batch_parts.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <numeric>
#include <set>

namespace msstream::testing {
namespace {

TEST(BatchParts, differ_by_one_row_at_most) {
  using Parts = std::vector<BatchPart>;
  EXPECT_EQ(batch_parts(10, 1), (Parts{{0, 10}}));
  EXPECT_EQ(batch_parts(10, 2), (Parts{{0, 5}, {5, 10}}));
  EXPECT_EQ(batch_parts(10, 4), (Parts{{0, 3}, {3, 6}, {6, 8}, {8, 10}}));
  EXPECT_EQ(batch_parts(3, 8), (Parts{{0, 1}, {1, 2}, {2, 3}})) << "no part is empty";
  expect_refused([] { (void)batch_parts(0, 2); }, "0 rows");
  expect_refused([] { (void)batch_parts(10, 0); }, "0 parts");
}

template <class R>
class LossInPartsTest : public GradientTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;
  static constexpr std::int64_t kRows = 13;
  static constexpr std::int64_t kIds = 6;
  static constexpr std::int64_t kWidth = 5;

  struct Result {
    float loss;
    Floats weight;  ///< the gradient of the weight
    Floats table;   ///< the table after a step of SGD
    friend bool operator==(Result const&, Result const&) = default;
  };

  /// Trains one step, with the batch divided into `parts`, of a model whose logits are embedding
  /// rows times a weight.
  Result train(int groups, int parts, LaunchThreads threads = LaunchThreads::none) {
    StreamPool pool(this->device(), {.groups = groups, .launch_threads = threads});
    auto const table = this->put(table_, {kIds, kWidth});
    auto const weight = this->put(weight_, {kWidth, 1});
    auto const bias = zeros<float>(this->device(), {1});
    auto const ids = this->put(ids_);
    auto const labels = this->put(labels_, {kRows, 1});
    GradientTape tape(this->device());
    Optimizer optimizer(this->device(), {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
    optimizer.add_table("table", table);
    auto const loss = loss_in_parts(tape, pool, kRows, parts, [&](BatchPart const& part) {
      ops::Bags<R> const rows(ids.rows(part.begin, part.end));
      auto const logits = ops::dense(tape, ops::embedding_lookup(tape, table, rows), weight, bias);
      return ops::mean_bce_with_logits(tape, logits, labels.rows(part.begin, part.end));
    });
    tape.backward(loss);
    optimizer.step(tape);
    return {to_host(loss).front(), to_host(tape.gradient(weight)), to_host(table)};
  }

  /// Expects the loss, gradient and table of a step on the whole batch, computed in double from the
  /// definitions.
  void expect_like_the_whole(Result const& result) {
    double loss = 0;
    Doubles weight(kWidth, 0.0);
    auto table = to_doubles(table_);
    for (std::size_t row = 0; row < kRows; ++row) {
      auto const first = static_cast<std::size_t>(ids_[row]) * kWidth;
      double logit = 0;
      for (std::size_t k = 0; k < kWidth; ++k) {
        logit += static_cast<double>(table_[first + k]) * weight_[k];
      }
      double const p = 1 / (1 + std::exp(-logit));
      double const label = labels_[row];
      loss -= (label * std::log(p) + (1 - label) * std::log(1 - p)) / kRows;
      for (std::size_t k = 0; k < kWidth; ++k) {
        weight[k] += (p - label) * table_[first + k] / kRows;
        table[first + k] -= (p - label) * weight_[k] / kRows;
      }
    }
    expect_near({result.loss}, {loss});
    expect_near(result.weight, weight);
    expect_near(result.table, table);
  }

  Floats table_ = this->random.reals(kIds * kWidth);
  Floats weight_ = this->random.reals(kWidth);
  Integers ids_ = this->random.integers(kRows, 0, kIds - 1);
  Floats labels_ = this->random.reals(kRows, 0.0F, 1.0F);
};
TYPED_TEST_SUITE(LossInPartsTest, Runtimes, RuntimeNames);

TYPED_TEST(LossInPartsTest, is_the_loss_of_the_whole_batch_and_so_are_its_gradients) {
  for (int const parts : {1, 2, 3, 13, 40}) {
    SCOPED_TRACE(parts);
    this->expect_like_the_whole(this->train(2, parts));
  }
}

TYPED_TEST(LossInPartsTest, has_the_same_bits_for_any_groups) {
  for (int const parts : {2, 3, 5}) {
    auto const expected = this->train(1, parts);
    for (int const groups : {1, 2, 3, 4}) {
      EXPECT_EQ(this->train(groups, parts), expected) << groups;
      EXPECT_EQ(this->train(groups, parts, LaunchThreads::per_group), expected) << groups;
    }
  }
}

TYPED_TEST(LossInPartsTest, parts_take_turns_on_the_groups_forward_and_backward) {
  StreamPool pool(this->device(), {.groups = 2});
  auto const x = this->random_tensor({9});
  GradientTape tape(this->device());
  auto const trace = record_step(this->device(), [&] {
    int part_number = 0;
    tape.backward(loss_in_parts(tape, pool, 9, 3, [&](BatchPart const& part) {
      NameScope const name(fmt::format("part{}", part_number++));
      return ops::mean(tape, ops::square(tape, ops::rows(tape, x, part.begin, part.end)));
    }));
  });
  std::set<std::string> seen;
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    auto const& name = trace.operations()[i].name;
    for (int part = 0; part < 3; ++part) {
      for (std::string const prefix : {"", "gradients/"}) {
        if (name.starts_with(fmt::format("{}part{}/", prefix, part))) {
          EXPECT_EQ(trace.group_of(i), part % 2) << name;
          seen.insert(fmt::format("{}{}", prefix, part));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 6U);
}

TYPED_TEST(LossInPartsTest, refuses_a_loss_that_is_no_scalar) {
  StreamPool pool(this->device(), {.groups = 1});
  auto const x = this->random_tensor({4});
  GradientTape tape(this->device());
  expect_refused(
      [&] { (void)loss_in_parts(tape, pool, 4, 2, [&](BatchPart const&) { return x; }); },
      "loss of a part has shape",
      x.shape());
}

}  // namespace
}  // namespace msstream::testing
