// SPDX-License-Identifier: Apache-2.0
// Tests a captured training step with a gradient tape, an optimizer, embedding tables, and matrix
// products with workspaces.
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::Bags;
using ops::Pooling;

/// A wide-and-deep model with a table and a layer for each branch. Each branch runs on one of the
/// groups, and every batch is written to the same tensors.
template <Runtime R>
class Training {
 public:
  explicit Training(int groups)
      : pool_(device_, {.groups = groups}),
        tape_(device_),
        optimizer_(device_, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.05F}) {
    for (int i = 0; i < kBranches; ++i) {
      tables_.push_back(random_tensor({kRows, kWidth}));
      optimizer_.add_table(fmt::format("table{}", i), tables_.back());
      weights_.push_back(random_tensor({kWidth, kWidth}));
      biases_.push_back(random_tensor({kWidth}));
      optimizer_.add(fmt::format("weight{}", i), weights_.back());
      optimizer_.add(fmt::format("bias{}", i), biases_.back());
      keys_.push_back(Tensor<std::int64_t, R>(device_, {kBatch, kHotness}));
    }
  }

  /// Returns the losses of `steps` training steps, and then the tables. If `captured`, all steps
  /// but the first are replays of a captured step.
  [[nodiscard]] Floats run(int steps, bool captured) {
    Tensor<float, R> const losses(device_, {steps});
    std::optional<Tensor<float, R>> loss;
    std::optional<CapturedStep<R>> replayed;
    for (int i = 0; i < steps; ++i) {
      next_batch();
      if (i == 0 || !captured) {
        loss = step();
      } else {
        if (i == 1) {
          replayed.emplace(device_, [&] { loss = step(); });
        }
        replayed->replay();
      }
      copy(losses.rows(i, i + 1).reshaped(Shape{}), loss->reshaped(Shape{}));
    }
    auto out = to_host(losses);
    for (auto const& table : tables_) {
      auto const values = to_host(table);
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

 private:
  static constexpr int kBranches = 6;
  static constexpr std::int64_t kRows = 50;
  static constexpr std::int64_t kWidth = 16;
  static constexpr std::int64_t kBatch = 32;
  static constexpr std::int64_t kHotness = 3;

  Tensor<float, R> random_tensor(Shape const& shape) {
    Floats values(static_cast<std::size_t>(shape.count()));
    std::ranges::generate(values,
                          [this] { return static_cast<float>(random_() % 2001) / 1000.0F - 1.0F; });
    return to_device<float, R>(device_, values, shape);
  }
  /// Writes the next batch to the tensors of the batch, on the copy streams.
  void next_batch() {
    for (auto const& keys : keys_) {
      PinnedArray<std::int64_t, R> const staged(device_, static_cast<std::size_t>(keys.count()));
      std::ranges::generate(staged.elements(),
                            [this] { return static_cast<std::int64_t>(random_() % 1000); });
      copy(keys, staged);
    }
  }
  [[nodiscard]] Tensor<float, R> step() {
    std::vector<Tensor<float, R>> branches;
    for (std::size_t i = 0; i < kBranches; ++i) {
      StreamScope const branch(pool_[static_cast<int>(i) % pool_.groups()], {.include_grad = true});
      Bags<R> const bags = ops::hash_to_bucket(keys_[i], kRows, 7);
      auto const pooled =
          ops::embedding_lookup(tape_, tables_[i], bags, {.pooling = Pooling::mean});
      branches.push_back(ops::dense(tape_, pooled, weights_[i], biases_[i], Activation::relu));
    }
    auto const sum = ops::add(tape_, branches);
    auto const loss = ops::mean_bce_with_logits(tape_, sum, labels_);
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    return loss;
  }

  std::mt19937_64 random_{11};
  Device<R> device_;
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  Tensor<float, R> labels_ = to_device<float, R>(
      device_, Floats(static_cast<std::size_t>(kBatch* kWidth), 0.25F), {kBatch, kWidth});
  std::vector<Tensor<float, R>> tables_;
  std::vector<Tensor<float, R>> weights_;
  std::vector<Tensor<float, R>> biases_;
  std::vector<Tensor<std::int64_t, R>> keys_;
};

template <class R>
class CapturedTraining : public RuntimeTest<R> {};
TYPED_TEST_SUITE(CapturedTraining, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedTraining, gives_the_bits_of_eager_steps_on_any_number_of_groups) {
  constexpr int kSteps = 40;
  auto const expected = Training<TypeParam>(1).run(kSteps, false);
  ASSERT_TRUE(std::ranges::all_of(expected, [](float x) { return std::isfinite(x); }));
  EXPECT_LT(expected[kSteps - 1], expected[0]);
  for (int const groups : {1, 4}) {
    EXPECT_TRUE(same_bits(Training<TypeParam>(groups).run(kSteps, true), expected)) << groups;
  }
}

}  // namespace
}  // namespace msstream::testing
