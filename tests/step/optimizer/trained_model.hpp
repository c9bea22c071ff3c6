// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// A model with tables and layers on several groups, and its optimizer.
template <Runtime R>
class TrainedModel {
 public:
  static constexpr int kBranches = 5;
  static constexpr std::int64_t kRows = 40;
  static constexpr std::int64_t kWidth = 12;
  static constexpr std::int64_t kBatch = 16;

  TrainedModel(Device<R> const& device,
               int groups,
               ops::OptimizerRule const& rule,
               OptimizerOptions const& options,
               std::optional<ops::ParameterGroup> const& group_of_biases = std::nullopt)
      : device_(device),
        pool_(device, {.groups = groups}),
        tape_(device),
        optimizer_(device, rule, options),
        labels_(random_tensor({kBatch, kWidth}, 0.0F)) {
    for (int i = 0; i < kBranches; ++i) {
      tables_.push_back(random_tensor({kRows, kWidth}, -1.0F));
      weights_.push_back(random_tensor({kWidth, kWidth}, -1.0F));
      biases_.push_back(random_tensor({kWidth}, -1.0F));
      optimizer_.add_table(fmt::format("table{}", i), tables_.back());
      optimizer_.add(fmt::format("weight{}", i), weights_.back());
      if (group_of_biases) {
        optimizer_.add(fmt::format("bias{}", i), biases_.back(), *group_of_biases);
      } else {
        optimizer_.add(fmt::format("bias{}", i), biases_.back());
      }
      Integers ids;
      for (std::int64_t k = 0; k < kBatch * 2; ++k) {
        ids.push_back(static_cast<std::int64_t>(random_() % kRows));
      }
      ids_.push_back(to_device<std::int64_t, R>(device_, ids, {kBatch, 2}));
    }
  }

  [[nodiscard]] Tensor<float, R> loss() {
    std::vector<Tensor<float, R>> branches;
    for (std::size_t i = 0; i < kBranches; ++i) {
      StreamScope const branch(pool_[static_cast<int>(i) % pool_.groups()], {.include_grad = true});
      auto const pooled = ops::embedding_lookup(tape_, tables_[i], ops::Bags<R>(ids_[i]), {});
      branches.push_back(ops::dense(tape_, pooled, weights_[i], biases_[i], ops::Activation::relu));
    }
    return ops::mean_bce_with_logits(tape_, ops::add(tape_, branches), labels_);
  }
  /// Trains `steps` updates, of `micro_batches` backward() calls each, and appends their losses. If
  /// `captured`, all updates but the first are replays.
  void train(Floats& losses,
             int steps,
             bool captured = false,
             int micro_batches = 1,
             std::function<void(int step)> const& before = {}) {
    std::optional<Tensor<float, R>> last;
    auto const update = [&] {
      for (int i = 0; i < micro_batches; ++i) {
        last = loss();
        tape_.backward(*last);
        EXPECT_EQ(optimizer_.step(tape_), i + 1 == micro_batches);
      }
      tape_.clear();
    };
    std::optional<CapturedStep<R>> replayed;
    for (int i = 0; i < steps; ++i) {
      if (before) {
        before(i);
      }
      if (i == 0 || !captured) {
        update();
      } else {
        if (i == 1) {
          replayed.emplace(device_, update);
        }
        replayed->replay();
      }
      losses.push_back(to_host(*last).front());
    }
  }
  /// Returns all parameters and tables.
  [[nodiscard]] Floats parameters() const {
    Floats all;
    for (auto const* const tensors : {&tables_, &weights_, &biases_}) {
      for (auto const& tensor : *tensors) {
        auto const values = to_host(tensor);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

  using Saved = std::map<std::string, std::vector<std::uint8_t>>;
  /// Returns the bytes of parameters and optimizer state.
  [[nodiscard]] Saved saved() const {
    Saved all;
    visit([&](std::string const& name, auto const& tensor) {
      auto const values = to_host(tensor);
      auto const* const bytes = reinterpret_cast<std::uint8_t const*>(values.data());
      all[name].assign(bytes, bytes + tensor.bytes());
    });
    return all;
  }
  void load(Saved const& from) {
    visit([&]<class T>(std::string const& name, Tensor<T, R> const& tensor) {
      std::vector<T> values(static_cast<std::size_t>(tensor.count()));
      std::memcpy(values.data(), from.at(name).data(), tensor.bytes());
      copy(tensor, to_device<T, R>(device_, values, tensor.shape()));
    });
  }

  [[nodiscard]] GradientTape<R>& tape() noexcept { return tape_; }
  [[nodiscard]] Optimizer<R>& optimizer() noexcept { return optimizer_; }
  [[nodiscard]] std::vector<Tensor<float, R>> const& weights() const noexcept { return weights_; }
  [[nodiscard]] std::vector<Tensor<float, R>> const& biases() const noexcept { return biases_; }
  [[nodiscard]] std::vector<Tensor<float, R>> const& tables() const noexcept { return tables_; }

 private:
  template <class Visit>
  void visit(Visit const& function) const {
    optimizer_.visit_state(function);
    for (std::size_t i = 0; i < kBranches; ++i) {
      function(fmt::format("table{}", i), tables_[i]);
      function(fmt::format("weight{}", i), weights_[i]);
      function(fmt::format("bias{}", i), biases_[i]);
    }
  }
  [[nodiscard]] Tensor<float, R> random_tensor(Shape const& shape, float least) {
    Floats values;
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      values.push_back(least + (1.0F - least) * static_cast<float>(random_() % 1000) / 1000.0F);
    }
    return to_device<float, R>(device_, values, shape);
  }

  std::mt19937_64 random_{11};
  Device<R> device_;
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  Tensor<float, R> labels_;
  std::vector<Tensor<float, R>> tables_;
  std::vector<Tensor<float, R>> weights_;
  std::vector<Tensor<float, R>> biases_;
  std::vector<Tensor<std::int64_t, R>> ids_;
};

}  // namespace msstream::testing
