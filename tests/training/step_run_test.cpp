// SPDX-License-Identifier: Apache-2.0
#include "training/step_run.hpp"

#include "dashboard/dashboard.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {
namespace {

struct SmallBatch {
  Tensor<float, Host> numbers;  ///< [4, 3]
  Tensor<float, Host> labels;   ///< [4, 1]
};

/// Two dense layers.
class SmallModel {
 public:
  explicit SmallModel(Device<Host> const& device, DenseStackOptions const& options = {})
      : parameters_(device, {.seed = 3}), layers_(parameters_, "layers", 3, {5, 1}, options) {}

  [[nodiscard]] Tensor<float, Host> loss(GradientTape<Host>& tape,
                                         StreamPool<Host>& /*pool*/,
                                         SmallBatch const& batch) const {
    return ops::mean_bce_with_logits(tape, layers_(tape, batch.numbers), batch.labels);
  }
  [[nodiscard]] Parameters<Host> const& parameters() const noexcept { return parameters_; }

 private:
  Parameters<Host> parameters_;
  DenseStack<Host> layers_;
};

std::pair<SmallModel, SmallBatch> small_training(Device<Host> const& device) {
  std::vector<float> const numbers = {1, 2, -1, 0, 1, 3, -2, 1, 0, 1, 1, -3};
  std::vector<float> const labels = {1, 0, 0, 1};
  return {SmallModel(device),
          SmallBatch{to_device(device, numbers, {4, 3}), to_device(device, labels, {4, 1})}};
}

TEST(StepTrainingTest, eager_steps_between_replays_leave_the_losses_alone) {
  auto const losses = [](bool captured, std::set<int> const& eager_steps) {
    StepTrainingOf<Host, decltype(&small_training)> training(
        {.groups = 2, .captured = captured},
        {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F},
        &small_training);
    std::vector<float> found;
    for (int step = 0; step < 8; ++step) {
      if (eager_steps.contains(step)) {
        training.step_eagerly();
      } else {
        training.step();
      }
      found.push_back(to_host(training.loss())[0]);
    }
    EXPECT_EQ(training.is_captured(), captured);
    return found;
  };
  auto const expected = losses(false, {});
  ASSERT_LT(expected.back(), expected.front());
  EXPECT_EQ(losses(true, {}), expected);
  EXPECT_EQ(losses(true, {3}), expected);
  EXPECT_EQ(losses(true, {0, 1, 4, 5, 7}), expected);
}

/// A process of another rank is silenced once as a process and once as a rank.
TEST(StepOptionsTest, a_silenced_rank_knows_that_a_step_is_traced) {
  StepOptions options;
  options.silence();
  EXPECT_FALSE(options.traces_step());
  options.trace = "trace.json";
  options.silence();
  options.silence();
  EXPECT_TRUE(options.trace.empty());
  EXPECT_TRUE(options.traces_step());
}

/// Two dense layers in float16.
class HalfModel : public SmallModel {
 public:
  explicit HalfModel(Device<Host> const& device)
      : SmallModel(device, {.precision = Precision::fp16}) {}
};

std::pair<HalfModel, SmallBatch> half_training(Device<Host> const& device) {
  return {HalfModel(device), small_training(device).second};
}

/// Trains on 30 batches, of which those of some steps have a number that float16 does not have.
/// Returns the report.
nlohmann::ordered_json trained_with_overflows(StepOptions const& options,
                                              std::set<int> const& overflows) {
  StepRun<Host, decltype(&half_training)> run(options, 30, &half_training);
  auto const& device = run.training().device();
  auto numbers = to_host(small_training(device).second.numbers);
  int step = 0;
  run.train(30, 4, "all", [&](SmallBatch const& inputs) {
    numbers[0] = overflows.contains(++step) ? 1e6F : 1.0F;
    copy(inputs.numbers, to_device(device, numbers, inputs.numbers.shape()));
  });
  return run.report();
}

TEST(StepRunTest, a_batch_that_overflows_in_float16_is_skipped_and_the_next_one_trained) {
  StepOptions options;
  options.quiet = true;
  options.scaling = LossScaleOptions{};
  for (bool const captured : {false, true}) {
    options.capture = captured;
    auto const report = trained_with_overflows(options, {3, 4, 20});
    auto const losses = report["losses"].get<std::vector<float>>();
    ASSERT_EQ(losses.size(), 30U);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_EQ(std::isfinite(losses[i]), i != 2 && i != 3 && i != 19) << i;
    }
    EXPECT_LT(losses.back(), losses.front());
    EXPECT_EQ(report["skipped_steps"], 3);
    EXPECT_EQ(report["loss_scale"], 65'536 / 8);
  }
}

TEST(StepRunTest, batches_that_overflow_one_after_the_other_end_the_training) {
  StepOptions options;
  options.quiet = true;
  options.scaling = LossScaleOptions{};
  std::set<int> overflows;
  for (int step = 5; step < 25; ++step) {
    overflows.insert(step);
  }
  try {
    static_cast<void>(trained_with_overflows(options, overflows));
    ADD_FAILURE() << "16 losses in a row that are not finite";
  } catch (Diverged const& error) {
    EXPECT_EQ(error.step(), 20);
  }
}

/// Trains eight steps with --capture and a dashboard, at which a browser looks from the sixth step
/// on, and returns the losses, and the names of the operations in the timeline.
std::pair<std::vector<float>, std::set<std::string>> train_watched(StepOptions& options,
                                                                   bool watched) {
  options.capture = true;
  options.quiet = true;
  StepRun<Host, decltype(&small_training)> run(options, 8, &small_training);
  auto const board = options.board();
  int step = 0;
  run.train(8, 4, "all", [&](SmallBatch const& /*batch*/) {
    if (++step >= 6 && watched) {
      static_cast<void>(board->state_json());
    }
  });
  EXPECT_TRUE(run.training().is_captured());
  std::set<std::string> names;
  auto const timeline = nlohmann::json::parse(board->timeline_json());
  for (auto const& name : timeline.at("names")) {
    names.insert(name.get<std::string>());
  }
  return {run.losses(), names};
}

TEST(StepRunTest, a_browser_sees_the_operations_of_a_captured_step) {
  std::vector<float> unseen;
  for (bool const watched : {false, true}) {
    StepOptions options;
    try {
      options.dashboard = std::make_shared<dashboard::Dashboard>(dashboard::Description{}, 0);
    } catch (std::runtime_error const& error) {
      GTEST_SKIP() << error.what();
    }
    auto const [losses, names] = train_watched(options, watched);
    if (!watched) {
      unseen = losses;
      EXPECT_TRUE(names.empty());
      continue;
    }
    EXPECT_EQ(losses, unseen);
    EXPECT_THAT(names, ::testing::Contains("update_dense"));
    EXPECT_THAT(names, ::testing::Not(::testing::Contains("replay")));
  }
}

}  // namespace
}  // namespace msstream::training
