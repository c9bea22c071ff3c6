// SPDX-License-Identifier: Apache-2.0
// Tests one captured training step for bags of any hotness. It must compute the bits of eager
// training.
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::Pooling;

constexpr std::int64_t kJaggedBags = 24;
constexpr std::int64_t kJaggedRows = 60;
constexpr std::int64_t kJaggedWidth = 8;
constexpr std::int64_t kHidden = 16;
constexpr std::int64_t kMostIds = 400;

/// A batch of ids in bags of any lengths, and garbage ids, which fill the space after the last bag.
struct JaggedBatch {
  Integers ids;
  Integers offsets;
  Floats labels;
  Integers garbage;
};

struct Weights {
  Floats table, first, second;
};

template <Runtime R>
struct JaggedInputs {
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> offsets;
  Tensor<float, R> labels;

  JaggedInputs(Device<R> const& device, std::int64_t capacity)
      : ids(device, {capacity}),
        offsets(device, {kJaggedBags + 1}),
        labels(device, {kJaggedBags, 1}) {}

  void take(JaggedBatch const& batch) const {
    Device<R> const device(ids.device());
    auto const write = [&](auto const& to, auto const& values) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      copy(to, to_device<T, R>(device, values, to.shape()));
    };
    auto const count = static_cast<std::int64_t>(batch.ids.size());
    Integers garbage(batch.garbage.begin(),
                     batch.garbage.begin() + static_cast<std::ptrdiff_t>(ids.count() - count));
    write(ids.rows(0, count), batch.ids);
    write(ids.rows(count, ids.count()), garbage);
    write(offsets, batch.offsets);
    write(labels, batch.labels);
  }
};

/// A model with embedding lookups on a group of their own, two layers, and Adam, which updates the
/// table row by row.
template <Runtime R>
class JaggedTraining {
 public:
  using Floats32 = Tensor<float, R>;

  JaggedTraining(Device<R> const& device, Weights const& weights)
      : pool_(device, {.groups = 2}),
        tape_(device),
        optimizer_(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.02F}),
        parameters_{to_device<float, R>(device, weights.table, {kJaggedRows, kJaggedWidth}),
                    to_device<float, R>(device, weights.first, {kJaggedWidth, kHidden}),
                    zeros<float>(device, {kHidden}),
                    to_device<float, R>(device, weights.second, {kHidden, 1}),
                    zeros<float>(device, {1})} {
    optimizer_.add_table("table", parameters_[0]);
    for (std::size_t i = 1; i < parameters_.size(); ++i) {
      optimizer_.add(fmt::format("parameter{}", i), parameters_[i]);
    }
  }

  [[nodiscard]] Floats32 step(JaggedInputs<R> const& inputs) {
    tape_.clear();
    auto const pooled = [&] {
      StreamScope const side(pool_[1], {.include_grad = true});
      return ops::embedding_lookup(
          tape_, parameters_[0], inputs.ids, inputs.offsets, Pooling::mean);
    }();
    auto const hidden = ops::dense(tape_, pooled, parameters_[1], parameters_[2], Activation::relu);
    auto const logits = ops::dense(tape_, hidden, parameters_[3], parameters_[4], Activation::none);
    auto const loss = ops::mean_bce_with_logits(tape_, logits, inputs.labels);
    tape_.backward(loss);
    optimizer_.step(tape_);
    return loss;
  }
  /// Returns all parameters and all state of the optimizer.
  [[nodiscard]] std::vector<Floats> values() const {
    std::vector<Floats> values;
    for (auto const& parameter : parameters_) {
      values.push_back(to_host(parameter));
    }
    optimizer_.visit_state([&](std::string const&, auto const& state) {
      if constexpr (requires { values.push_back(to_host(state)); }) {
        values.push_back(to_host(state));
      }
    });
    return values;
  }

 private:
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  std::vector<Floats32> parameters_;
};

template <class R>
class JaggedTrainingTest : public OpsTest<R> {
 protected:
  /// Returns a batch of `least` to `most` ids. The garbage ids are valid rows of the table, so
  /// using one would change the result.
  JaggedBatch batch(std::int64_t least, std::int64_t most) {
    auto const count = this->random.integer(least, most);
    JaggedBatch made{this->random.integers(count, 0, kJaggedRows - 1),
                     this->random.integers(kJaggedBags - 1, 0, count),
                     this->random.reals(kJaggedBags),
                     this->random.integers(kMostIds, 0, kJaggedRows - 1)};
    std::ranges::sort(made.offsets);
    made.offsets.insert(made.offsets.begin(), 0);
    made.offsets.push_back(count);
    for (auto& label : made.labels) {
      label = label > 0 ? 1.0F : 0.0F;
    }
    return made;
  }
};
TYPED_TEST_SUITE(JaggedTrainingTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(JaggedTrainingTest, one_graph_a_capacity_trains_like_eager_steps_of_any_hotness) {
  constexpr int kBatches = 30;
  constexpr std::int64_t kFew = 100;
  using Made = JaggedInputs<TypeParam>;
  for (auto const& capacities : {Integers{kMostIds}, Integers{kFew, kMostIds}}) {
    Weights const weights{this->random.reals(kJaggedRows * kJaggedWidth),
                          this->random.reals(kJaggedWidth * kHidden),
                          this->random.reals(kHidden)};
    JaggedTraining<TypeParam> eager(this->device(), weights);
    JaggedTraining<TypeParam> training(this->device(), weights);
    CapturedSteps steps(
        this->device(),
        [&](std::int64_t capacity) { return Made(this->device(), capacity); },
        [&](Made const& inputs) { return training.step(inputs); },
        {.capacities = capacities, .log = {}});
    auto const before = eager.values();
    for (int i = 0; i < kBatches; ++i) {
      auto const batch = i % 2 == 0 ? this->batch(kFew + 1, kMostIds) : this->batch(0, kFew);
      auto const count = static_cast<std::int64_t>(batch.ids.size());
      auto const loss = steps.run(count, [&](Made const& inputs) { inputs.take(batch); });
      Made const inputs(this->device(), count);
      inputs.take(batch);
      ASSERT_TRUE(same_bits(to_host(loss), to_host(eager.step(inputs)))) << "batch " << i;
    }
    auto const expected = eager.values();
    auto const values = training.values();
    ASSERT_EQ(values.size(), 15U) << "five parameters with two moments each";
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(same_bits(values[i], expected[i])) << "value " << i;
      EXPECT_FALSE(same_bits(values[i], before[i])) << "value " << i << " has not moved";
      EXPECT_TRUE(std::ranges::all_of(values[i], [](float x) { return std::isfinite(x); }));
    }
    EXPECT_EQ(steps.counts().captures, capacities.size());
    EXPECT_EQ(steps.counts().replays, kBatches - capacities.size());
  }
}

}  // namespace
}  // namespace msstream::testing
