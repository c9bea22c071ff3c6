// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <optional>

namespace msstream::testing {

/// The way in which a model's training steps are issued, which must not change a bit of the
/// results.
struct StepsIssued {
  int groups = 1;
  bool captured = false;
  LaunchThreads launch_threads = LaunchThreads::none;
};

/// Trains a model on one batch and returns the loss of each of `steps` steps.
template <class Model, class Batch, Runtime R>
Floats model_losses(Device<R> const& device,
                    Model const& model,
                    Batch const& batch,
                    ops::OptimizerRule const& rule,
                    int steps,
                    StepsIssued const& issued) {
  StreamPool<R> pool(device, {.groups = issued.groups, .launch_threads = issued.launch_threads});
  GradientTape<R> tape(device);
  Optimizer<R> optimizer(device, rule);
  optimizer.add(model.parameters());
  std::optional<Tensor<float, R>> loss;
  auto const train = [&] {
    loss = model.loss(tape, pool, batch);
    tape.backward(*loss);
    optimizer.step(tape);
    tape.clear();
  };
  Floats losses;
  auto const repeat = [&](int times, auto&& step) {
    for (int i = 0; i < times; ++i) {
      step();
      losses.push_back(to_host(*loss).front());
    }
  };
  if constexpr (CapturingRuntime<R>) {
    if (issued.captured) {
      repeat(1, train);
      CapturedStep<R> captured(device, train);
      repeat(steps - 1, [&] { captured.replay(); });
      return losses;
    }
  }
  repeat(steps, train);
  return losses;
}

/// Expects that `losses(issued)` returns the same losses for several numbers of groups, each also
/// with launch threads and captured.
template <class R, class Losses>
void expect_same_bits_however_issued(Losses const& losses) {
  auto const expected = losses(StepsIssued{});
  EXPECT_NE(expected.back(), expected.front()) << "it moves";
  for (int const groups : {1, 3, 4, 7}) {
    SCOPED_TRACE(fmt::format("{} groups", groups));
    EXPECT_EQ(losses({.groups = groups}), expected);
    EXPECT_EQ(losses({.groups = groups, .launch_threads = LaunchThreads::per_group}), expected);
    if constexpr (CapturingRuntime<R>) {
      EXPECT_EQ(losses({.groups = groups, .captured = true}), expected);
    }
  }
}

}  // namespace msstream::testing
