// SPDX-License-Identifier: Apache-2.0
// Tests a training with everything that draws, counts or schedules: its losses have the same bits
// however it runs, and whether or not it is stopped and resumed.
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kBatch = 24;
constexpr int kSteps = 8;
constexpr int kTowers = 8;

struct Way {
  int groups = 1;
  bool captured = false;
};

/// A small model whose branches use all groups: tables of two poolings with dropout, and towers of
/// dense numbers with batch norm and dropout.
template <Runtime R>
class Training {
 public:
  Training(Device<R> const& device, Way const& way)
      : device_(device),
        pool_(device, {.groups = way.groups}),
        parameters_(device, {.seed = 3}),
        random_(device, {.seed = 5}),
        tables_(device,
                std::vector<ops::EmbeddingTable<R>>{{.weights = parameters_.table("sum", {13, 4})},
                                                    {.weights = parameters_.table("max", {7, 5}),
                                                     .pooling = ops::Pooling::max,
                                                     .hotness = 2}}),
        top_(parameters_, "top", 9 + 2 * kTowers, {8, 1}, {.batch_norm = true}),
        optimizer_(
            device,
            {.kind = ops::OptimizerKind::adamw, .learning_rate = 0.05F, .weight_decay = 0.01F},
            {.schedule = Schedule::cosine({.steps = 10, .warmup = {.steps = 3}}),
             .clip_norm = 0.5F}),
        tape_(device),
        auc_(device),
        dense_(ops::random_normal(device, {kBatch, 3}, {1, "dense"})),
        ids_(to_device(device, ids(), {3 * kBatch})),
        labels_(to_device(device, labels(), {kBatch, 1})),
        captured_(way.captured) {
    for (int i = 0; i < kTowers; ++i) {
      towers_.emplace_back(parameters_,
                           fmt::format("tower{}", i),
                           3,
                           std::vector<std::int64_t>{4, 2},
                           DenseStackOptions{.activation = TrainedActivation::prelu,
                                             .batch_norm = true,
                                             .dropout = 0.1F,
                                             .random = random_});
    }
    optimizer_.add(parameters_);
  }

  /// Runs the steps from `first` on, and returns their losses.
  Floats run(int first, int last) {
    Floats losses;
    for (int step = first; step < last; ++step) {
      if constexpr (CapturingRuntime<R>) {
        if (captured_ && loss_ && !graph_) {
          graph_.emplace(device_, [this] { train(); });
        }
        graph_ ? static_cast<void>(graph_->replay()) : train();
      } else {
        train();
      }
      losses.push_back(to_host(*loss_)[0]);
    }
    return losses;
  }
  [[nodiscard]] checkpoint::Tensors tensors() const {
    return checkpoint::Tensors(parameters_, optimizer_, random_);
  }
  [[nodiscard]] std::optional<double> auc() const { return auc_.value(); }
  /// Returns the parameters and the running statistics.
  [[nodiscard]] std::map<std::string, Floats> values() const {
    std::map<std::string, Floats> values;
    for (auto const& entry : parameters_.entries()) {
      values[entry.name] = to_host(parameters_.find(entry.name));
    }
    return values;
  }

 private:
  static Integers ids() {
    Integers ids;
    for (std::int64_t i = 0; i < 3 * kBatch; ++i) {
      ids.push_back(i * 5 % 7);
    }
    return ids;
  }
  static Floats labels() {
    Floats labels;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      labels.push_back(i % 3 == 0 ? 1.0F : 0.0F);
    }
    return labels;
  }

  void train() {
    random_.advance();
    std::vector<Tensor<float, R>> features;
    {
      StreamScope<R> const branch(pool_[pool_.groups() - 1], {.include_grad = true});
      auto const rows = ops::embedding_lookup(tape_, tables_, ops::TableBags<R>{ids_, kBatch});
      features.push_back(ops::dropout(tape_, rows, {.rate = 0.3F}, random_, "rows"));
    }
    for (int i = 0; i < kTowers; ++i) {
      StreamScope<R> const branch(pool_[i % pool_.groups()], {.include_grad = true});
      features.push_back(towers_[static_cast<std::size_t>(i)](tape_, dense_));
    }
    StreamScope<R> const trunk(pool_[0], {.include_grad = true});
    auto const joined = ops::concat(tape_, features);
    auto const logits =
        top_(tape_, ops::dropout(tape_, joined, {.rate = 0.2F}, random_, "features"));
    {
      StreamScope<R> const beside(pool_[1 % pool_.groups()]);
      auc_.update(logits, labels_);
    }
    loss_ = ops::mean_bce_with_logits(tape_, logits, labels_);
    tape_.backward(*loss_);
    optimizer_.step(tape_);
    tape_.clear();
  }

  Device<R> device_;
  StreamPool<R> pool_;
  Parameters<R> parameters_;
  RandomGenerator<R> random_;
  ops::EmbeddingTables<R> tables_;
  std::vector<DenseStack<R>> towers_;
  DenseStack<R> top_;
  Optimizer<R> optimizer_;
  GradientTape<R> tape_;
  metrics::Auc<R> auc_;
  Tensor<float, R> dense_;
  Tensor<std::int64_t, R> ids_;
  Tensor<float, R> labels_;
  bool captured_;
  std::optional<Tensor<float, R>> loss_;
  std::optional<CapturedStep<R>> graph_;
};

template <class R>
class WholeTrainingTest : public OpsTest<R> {};
TYPED_TEST_SUITE(WholeTrainingTest, Runtimes, RuntimeNames);

TYPED_TEST(WholeTrainingTest, losses_have_the_same_bits_however_it_runs) {
  Training<TypeParam> plain(this->device(), {});
  auto const expected = plain.run(0, kSteps);
  auto const auc = plain.auc();
  auto const values = plain.values();
  ASSERT_TRUE(auc);
  EXPECT_NE(expected[2], expected[3]) << "dropout draws anew in each step";
  EXPECT_NE(values.at("tower7/0/norm/mean")[0], 0.0F) << "batch norm counts";
  for (int groups = 1; groups <= 8; ++groups) {
    for (bool const captured : {false, true}) {
      SCOPED_TRACE(fmt::format("{} groups, {}", groups, captured ? "captured" : "eager"));
      Training<TypeParam> training(this->device(), {.groups = groups, .captured = captured});
      EXPECT_EQ(training.run(0, kSteps), expected);
      EXPECT_EQ(training.auc(), auc);
      EXPECT_EQ(training.values(), values);
    }
  }
}

TYPED_TEST(WholeTrainingTest, losses_have_the_same_bits_if_it_is_resumed_in_the_middle) {
  TemporaryFolder const folder;
  auto const path = folder.path() / "middle.safetensors";
  Training<TypeParam> plain(this->device(), {});
  auto const expected = plain.run(0, kSteps);
  auto const values = plain.values();
  for (int const groups : {1, 2, 4, 8}) {
    for (bool const captured : {false, true}) {
      SCOPED_TRACE(fmt::format("{} groups, {}", groups, captured ? "captured" : "eager"));
      Training<TypeParam> first(this->device(), {.groups = groups, .captured = captured});
      EXPECT_EQ(first.run(0, 4), Floats(expected.begin(), expected.begin() + 4));
      checkpoint::save(path, first.tensors(), {.step = 4});
      // It goes on in another number of groups, and captured if it was not.
      Training<TypeParam> second(this->device(), {.groups = 9 - groups, .captured = !captured});
      EXPECT_EQ(checkpoint::load(path, second.tensors()).step, 4);
      EXPECT_EQ(second.run(4, kSteps), Floats(expected.begin() + 4, expected.end()));
      EXPECT_EQ(second.values(), values);
    }
  }
}

TYPED_TEST(WholeTrainingTest, two_optimizers_have_names_of_their_own) {
  auto const& device = this->device();
  ops::OptimizerRule const rule{.kind = ops::OptimizerKind::momentum, .learning_rate = 0.1F};
  Optimizer<TypeParam> wide(device, rule);
  Optimizer<TypeParam> deep(device, rule);
  wide.add("w", zeros<float>(device, {2, 2}));
  deep.add("w", zeros<float>(device, {3, 2}));
  EXPECT_THROW(checkpoint::Tensors(wide, deep), std::invalid_argument);
  auto const both = checkpoint::Tensors().add("wide", wide).add("deep", deep);
  EXPECT_EQ(both.count(), 6U);
  EXPECT_EQ(both.any().front().name, "wide/optimizer/step");
}

TEST(WholeTraining, dropout_draws_do_not_count_once_the_generator_was_loaded) {
  Device<Host> const device;
  RandomGenerator<Host> const random(device);
  checkpoint::Tensors const tensors(random);
  TemporaryFolder const folder;
  auto const file = folder / "random.safetensors";
  auto const step = [&] {
    GradientTape tape(device);
    auto const x = ops::random_normal(device, {6, 2}, {1, "x"});
    tape.backward(ops::sum(tape, ops::dropout(tape, x, {.rate = 0.5F}, random, "a")));
  };
  checkpoint::save(file, tensors);
  step();
  checkpoint::load(file, tensors);
  step();
  checkpoint::save(file, tensors);
  EXPECT_THROW(step(), std::invalid_argument) << "saving forgets nothing";
}

}  // namespace
}  // namespace msstream::testing
