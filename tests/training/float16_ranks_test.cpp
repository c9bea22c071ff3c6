// SPDX-License-Identifier: Apache-2.0
#include "training/step_training.hpp"

#include <msstream/comm/world.hpp>
#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {
namespace {

struct Float16Batch {
  Tensor<float, Host> numbers;  ///< [2, 3]
  Tensor<float, Host> labels;   ///< [2, 1]
  float weight;
};

/// Two dense layers in float16.
class Float16Model {
 public:
  explicit Float16Model(Device<Host> const& device)
      : parameters_(device, {.seed = 3}),
        layers_(parameters_, "layers", 3, {5, 1}, {.precision = Precision::fp16}) {}

  [[nodiscard]] Tensor<float, Host> loss(GradientTape<Host>& tape,
                                         StreamPool<Host>& /*pool*/,
                                         Float16Batch const& batch) const {
    auto const loss = ops::mean_bce_with_logits(tape, layers_(tape, batch.numbers), batch.labels);
    return ops::scale(tape, loss, batch.weight);
  }
  [[nodiscard]] Parameters<Host> const& parameters() const noexcept { return parameters_; }

 private:
  Parameters<Host> parameters_;
  DenseStack<Host> layers_;
};

/// The losses, scales and parameters of one rank after some steps of training.
struct Trained {
  std::vector<float> losses;
  std::vector<float> scales;  ///< after each step
  std::vector<std::vector<float>> parameters;
  std::int64_t skipped;

  bool operator==(Trained const&) const = default;
};

/// Trains eight steps on `ranks` ranks, on parts of two rows. The scale is so large that the
/// gradients of the last part, whose loss has the weight, overflow at first; those of the other
/// parts, which have a weight of 1, do not.
std::vector<Trained> train(
    int ranks, Parallel parallel, Reproducible reproducible, bool captured, float weight = 64.0F) {
  std::vector<Trained> trained(static_cast<std::size_t>(ranks));
  comm::run_as_threads(ranks, [&](comm::World const& world) {
    RankOptions options;
    options.ranks = ranks;
    options.parallel = parallel;
    options.reproducible = reproducible;
    auto const own_parts = options.parts() / ranks;
    auto const build = [&](Device<Host> const& device) {
      BatchesOfParts<Float16Batch> inputs;
      for (int part = 0; part < own_parts; ++part) {
        auto const number = world.rank() * own_parts + part;
        auto const x = 0.5F + 0.25F * static_cast<float>(number);
        std::vector<float> const numbers = {x, 2, -1, -x, 1, 1};
        std::vector<float> const labels = {1, 0};
        inputs.batches.push_back({to_device(device, numbers, {2, 3}),
                                  to_device(device, labels, {2, 1}),
                                  number + 1 == options.parts() ? weight : 1.0F});
      }
      return std::pair(Float16Model(device), std::move(inputs));
    };
    StepTrainingOf<Host, decltype(build)> training(
        {.groups = 2,
         .captured = captured,
         .loss_scale = LossScaleOptions{.initial = 8192.0F, .backoff = 0.25F, .interval = 3}},
        {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.01F},
        build,
        std::nullopt,
        {.world = world, .parallel = parallel, .reproducible = reproducible});
    auto& own = trained[static_cast<std::size_t>(world.rank())];
    for (int step = 0; step < 8; ++step) {
      training.step();
      own.losses.push_back(to_host(training.loss())[0]);
      own.scales.push_back(training.loss_scale()->value());
    }
    training.model().parameters().visit_state([&](std::string const&, auto const& tensor) {
      if constexpr (std::same_as<decltype(to_host(tensor)), std::vector<float>>) {
        own.parameters.push_back(to_host(tensor));
      }
    });
    own.skipped = training.optimizer().status().skipped;
  });
  return trained;
}

TEST(Float16RanksTest, skip_the_same_steps_and_change_the_scale_alike) {
  for (auto const parallel : {Parallel::data, Parallel::half_batches}) {
    auto const ranks = train(2, parallel, Reproducible::same_rank_count, false);
    EXPECT_GT(ranks[0].skipped, 0) << "nothing overflows";
    EXPECT_LT(ranks[0].skipped, 8) << "nothing is learnt";
    EXPECT_EQ(ranks[0].scales.front(), 2048.0F);
    EXPECT_NE(ranks[0].losses.back(), ranks[0].losses.front());
    EXPECT_EQ(ranks[1], ranks[0]);
    EXPECT_EQ(train(2, parallel, Reproducible::same_rank_count, false), ranks);
    EXPECT_EQ(train(2, parallel, Reproducible::same_rank_count, true), ranks) << "captured";
    // Only the last part overflows.
    auto const small = train(2, parallel, Reproducible::same_rank_count, false, 1.0F);
    EXPECT_EQ(small[0].skipped, 0);
  }
}

TEST(Float16RanksTest, have_the_same_bits_in_any_number_that_the_parts_allow) {
  auto const one = train(1, Parallel::data, Reproducible::any_rank_count, false);
  EXPECT_GT(one[0].skipped, 0);
  for (int const ranks : {2, 4}) {
    for (auto const& rank : train(ranks, Parallel::data, Reproducible::any_rank_count, true)) {
      EXPECT_EQ(rank, one[0]) << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace msstream::training
