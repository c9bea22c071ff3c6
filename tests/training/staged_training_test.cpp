// SPDX-License-Identifier: Apache-2.0
#include "training/staged_training.hpp"

#include "runtime/gate.hpp"
#include "stream/dependency_tracker.hpp"
#include "stream/stream.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::training {
namespace {

struct TwoTensors {
  Tensor<float, Host> numbers;  ///< [4, 3]
  Tensor<float, Host> labels;   ///< [4, 1]
};

/// Two dense layers, whose first stage issues nothing, as that of a model that hashes no ids.
class PlainModel {
 public:
  explicit PlainModel(Device<Host> const& device)
      : parameters_(device, {.seed = 3}), layers_(parameters_, "layers", 3, {5, 1}) {}

  [[nodiscard]] TwoTensors prepare(GradientTape<Host>& /*tape*/, TwoTensors const& batch) const {
    return batch;
  }
  [[nodiscard]] TwoTensors embed(GradientTape<Host>& /*tape*/,
                                 StreamPool<Host>& /*pool*/,
                                 TwoTensors const& prepared) const {
    return prepared;
  }
  [[nodiscard]] Tensor<float, Host> loss_of(GradientTape<Host>& tape,
                                            StreamPool<Host>& /*pool*/,
                                            TwoTensors const& features) const {
    return ops::mean_bce_with_logits(tape, layers_(tape, features.numbers), features.labels);
  }
  [[nodiscard]] Tensor<float, Host> loss(GradientTape<Host>& tape,
                                         StreamPool<Host>& pool,
                                         TwoTensors const& batch) const {
    return loss_of(tape, pool, batch);
  }
  [[nodiscard]] Parameters<Host> const& parameters() const noexcept { return parameters_; }

 private:
  Parameters<Host> parameters_;
  DenseStack<Host> layers_;
};

struct BuildPlain {
  [[nodiscard]] TwoTensors inputs(Device<Host> const& device) const {
    return {zeros<float>(device, {4, 3}), zeros<float>(device, {4, 1})};
  }
  std::pair<PlainModel, TwoTensors> operator()(Device<Host> const& device) const {
    return {PlainModel(device), inputs(device)};
  }
};

/// A training, and the batches that it is fed.
struct PlainTraining {
  explicit PlainTraining(std::optional<Staleness> two_stage)
      : training({.groups = 2, .two_stage = two_stage},
                 {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F},
                 BuildPlain()) {
    for (float const batch : {1.0F, -2.0F, 0.5F, 3.0F, -1.0F, 2.0F}) {
      std::vector<float> const numbers = {batch, 2, -1, 0, batch, 3, -2, 1, batch, 1, 1, -batch};
      std::vector<float> const labels = {1, 0, batch > 0 ? 1.0F : 0.0F, 1};
      batches.push_back({to_device(training.device(), numbers, {4, 3}),
                         to_device(training.device(), labels, {4, 1})});
    }
    training.synchronize();
  }

  void step(bool is_last) {
    training.take(
        [this](TwoTensors const& inputs) {
          auto const& batch = batches.at(fed++);
          copy(inputs.numbers, batch.numbers);
          copy(inputs.labels, batch.labels);
        },
        is_last);
    training.step();
  }

  StagedTraining<Host, BuildPlain> training;
  std::vector<TwoTensors> batches;
  std::size_t fed = 0;
};

/// Returns the position of the newest operation on a group of merged streams.
order::Position newest(StreamGroup<Host> const& group) {
  auto const stream = group.compute();
  auto const& slot = stream.engine().slot();
  return {slot.index, slot.reserved.load()};
}

TEST(StagedTrainingTest, a_step_does_not_wait_for_the_copies_of_the_next_batch) {
  PlainTraining plain(Staleness::exact);
  auto& training = plain.training;
  plain.step(false);
  plain.step(false);
  auto& pool = training.pool();
  auto& tracker = *training.device().tracker();
  auto& main = pool[0].compute().engine().slot();
  testing::Gate gate;  // keeps later work incomplete
  // The queue of the first group is [copies of batch 2, wait for the test's gate, copies of batch
  // 3]; that of the main group ends with the training on batch 2.
  auto const copies_of_2 = newest(pool[1]);
  gate.hold(pool[1].compute());
  plain.step(false);
  EXPECT_NE(newest(pool[1]), copies_of_2) << "nothing was fed";
  EXPECT_FALSE(tracker.covers(main, newest(pool[1]))) << "the copies of batch 3";
  EXPECT_TRUE(tracker.covers(main, copies_of_2));
  gate.open();
  training.synchronize();
}

TEST(StagedTrainingTest, two_stages_of_which_one_is_empty_train_with_the_same_bits) {
  std::vector<std::vector<float>> all;
  for (auto const two_stage : {std::optional<Staleness>(), std::optional(Staleness::exact)}) {
    PlainTraining plain(two_stage);
    auto& losses = all.emplace_back();
    for (std::size_t step = 0; step < plain.batches.size(); ++step) {
      plain.step(step + 1 == plain.batches.size());
      losses.push_back(to_host(plain.training.loss())[0]);
    }
    EXPECT_EQ(plain.fed, plain.batches.size());
  }
  EXPECT_EQ(all[1], all[0]);
  EXPECT_NE(all[0].front(), all[0].back());
}

}  // namespace
}  // namespace msstream::training
