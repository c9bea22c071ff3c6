// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "faulty/every_call.hpp"
#include "faulty/world.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace msstream::testing {

/// A small Wide & Deep model. Each field is a branch on its own group, and the trunk is on group 0.
template <Runtime Inner>
class SmallTraining {
 public:
  using R = typename World<Inner>::R;

  explicit SmallTraining(World<Inner>& world)
      : device_(*world.device),
        pool_(*world.pool),
        optimizer_(device_, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F}),
        weight_(upload({kFields * kWidth, 1})),
        bias_(upload({1})),
        labels_(to_device<float>(device_, Floats{0.0F, 0.25F, 0.5F, 1.0F}, {kBatch, 1})) {
    optimizer_.add("weight", weight_);
    optimizer_.add("bias", bias_);
    for (int i = 0; i < kFields; ++i) {
      tables_.push_back(upload({kRows, kWidth}));
      optimizer_.add_table(fmt::format("table {}", i), tables_.back());
      keys_.push_back(to_device<std::int64_t>(device_, {7 + i, 8, 9, 7 + i}, {kBatch}));
    }
  }

  void step(GradientTape<R>& tape) {
    std::vector<Tensor<float, R>> pooled;
    for (int i = 0; i < kFields; ++i) {
      auto const field = static_cast<std::size_t>(i);
      StreamScope const branch(pool_[i % pool_.groups()], {.include_grad = true});
      ops::Bags<R> const rows = ops::hash_to_bucket(keys_[field], kRows);
      pooled.push_back(ops::embedding_lookup(tape, tables_[field], rows));
    }
    StreamScope const trunk(pool_[0], {.include_grad = true});
    auto const logits = ops::dense(tape, ops::concat(tape, pooled), weight_, bias_);
    auto const loss = ops::mean_bce_with_logits(tape, logits, labels_);
    tape.backward(loss);
    optimizer_.step(tape);
    tape.clear();
  }

  /// Returns the values of all parameters except for the bias.
  [[nodiscard]] Floats bits() const {
    Floats bits = to_host(weight_);
    for (auto const& table : tables_) {
      auto const more = to_host(table);
      bits.insert(bits.end(), more.begin(), more.end());
    }
    return bits;
  }

 private:
  static constexpr int kFields = 2;
  static constexpr std::int64_t kRows = 5;
  static constexpr std::int64_t kWidth = 2;
  static constexpr std::int64_t kBatch = 4;

  Tensor<float, R> upload(Shape const& shape) const {
    auto values = ascending(shape.count());
    for (auto& value : values) {
      value = 0.25F - 0.125F * value;
    }
    return to_device<float>(device_, values, shape);
  }

  Device<R> device_;
  StreamPool<R>& pool_;
  Optimizer<R> optimizer_;
  Tensor<float, R> weight_;
  Tensor<float, R> bias_;
  Tensor<float, R> labels_;
  std::vector<Tensor<float, R>> tables_;
  std::vector<Tensor<std::int64_t, R>> keys_;
};

/// Trains two steps from newly initialised parameters, and returns the resulting parameter values.
template <Runtime Inner>
Floats train(World<Inner>& world, GradientTape<typename World<Inner>::R>& tape) {
  SmallTraining<Inner> training(world);
  training.step(tape);
  training.step(tape);
  auto const bits = training.bits();
  world.pool->synchronize();
  return bits;
}

/// Returns the GradientTape of a world, which is created at the first call. A tape can be used for
/// another step after clear(), even if a step with it has failed.
template <Runtime Inner>
GradientTape<typename World<Inner>::R>& tape_of(World<Inner>& world) {
  using Tape = GradientTape<typename World<Inner>::R>;
  if (world.kept == nullptr) {
    world.kept = std::make_shared<Tape>(*world.device);
  }
  return *static_cast<Tape*>(world.kept.get());
}

/// A scenario that trains from newly initialised parameters, and expects the same bits each time,
/// also after a failure.
template <Runtime Inner>
Scenario<Inner> training(LaunchThreads threads) {
  auto const expected = std::make_shared<Floats>();
  return {"training",
          [=](World<Inner>& world) {
            world.open({.groups = 3, .launch_threads = threads});
            auto const bits = train(world, tape_of(world));
            if (expected->empty()) {
              *expected = bits;  // the values of the first run, which has no fault
            }
            ASSERT_EQ(bits, *expected);
          },
          [=](World<Inner>& world) {
            auto& tape = tape_of(world);
            tape.clear();
            ASSERT_EQ(train(world, tape), *expected);
            world.kept.reset();
          }};
}

}  // namespace msstream::testing
