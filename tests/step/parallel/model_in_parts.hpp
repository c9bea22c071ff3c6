// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace msstream::testing {

inline constexpr std::int64_t kNumbersOfRow = 3;
inline constexpr std::int64_t kIdsOfRow = 2;
inline constexpr std::int64_t kHiddenOfParts = 6;
inline constexpr int kStepsInParts = 5;

/// The losses of all steps, and the last values of all parameters, as bits.
struct TrainedInParts {
  std::vector<float> losses;
  std::vector<float> values;

  friend bool operator==(TrainedInParts const& a, TrainedInParts const& b) {
    return bits_of(a.losses) == bits_of(b.losses) && bits_of(a.values) == bits_of(b.values);
  }
};

/// A model with two tables and two layers, and a batch of which it can take some rows. With
/// `in_one_lookup`, both tables are EmbeddingTables, and otherwise each has a lookup of its own.
template <Runtime R>
class ModelInParts {
 public:
  ModelInParts(Device<R> const& device,
               std::int64_t rows,
               std::uint64_t seed,
               int groups,
               bool in_one_lookup = false)
      : device_(device), rows_(rows), parameters_(device, {.seed = seed}) {
    if (in_one_lookup) {
      std::vector<ops::EmbeddingTable<R>> tables;
      for (auto const& table : {first_, second_}) {
        tables.push_back({.weights = table, .hotness = kIdsOfRow});
      }
      together_.emplace(device, tables);
    }
    std::mt19937_64 engine(7);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 2 * rows * kIdsOfRow; ++i) {
      ids.push_back(static_cast<std::int64_t>(engine() % 12) - 1);  // -1 stands for none
    }
    auto labels = random_elements<float>(8, static_cast<std::size_t>(rows));
    for (auto& label : labels) {
      label = label > 0 ? 1.0F : 0.0F;
    }
    ids_.emplace(to_device(device, ids, {2 * rows, kIdsOfRow}));
    x_.emplace(to_device(device,
                         random_elements<float>(9, static_cast<std::size_t>(rows * kNumbersOfRow)),
                         {rows, kNumbersOfRow}));
    labels_.emplace(to_device(device, labels, {rows, 1}));
    if (groups > 0) {
      pool_.emplace(device, StreamPoolOptions{.groups = groups, .log = nullptr});
    }
  }

  [[nodiscard]] Parameters<R> const& parameters() const { return parameters_; }
  /// Returns the mean loss of the rows [begin, end).
  [[nodiscard]] Tensor<float, R> loss(GradientTape<R>& tape, std::int64_t begin, std::int64_t end) {
    std::vector<Tensor<float, R>> columns{x_->rows(begin, end)};
    tape.without_gradient(columns[0]);
    if (together_) {
      columns.push_back(rows_of_both(tape, begin, end));
    }
    for (int t = 0; !together_ && t < 2; ++t) {
      std::optional<StreamScope<R>> scope;
      if (pool_) {
        scope.emplace((*pool_)[(t + 1) % pool_->groups()],
                      StreamScopeOptions{.include_grad = true});
      }
      auto const own = ids_->rows(t * rows_ + begin, t * rows_ + end);
      columns.push_back(ops::embedding_lookup(tape, t == 0 ? first_ : second_, ops::Bags<R>(own)));
    }
    std::optional<StreamScope<R>> scope;
    if (pool_) {
      scope.emplace((*pool_)[0], StreamScopeOptions{.include_grad = true});
    }
    auto const hidden = ops::relu(tape, ops::dense(tape, ops::concat(tape, columns), w1_, b1_));
    return ops::mean_bce_with_logits(
        tape, ops::matmul(tape, hidden, w2_), labels_->rows(begin, end));
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& tensor : {first_, second_, w1_, b1_, w2_}) {
      auto const own = to_host(tensor);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  [[nodiscard]] Tensor<float, R> rows_of_both(GradientTape<R>& tape,
                                              std::int64_t begin,
                                              std::int64_t end) {
    std::optional<StreamScope<R>> scope;
    if (pool_) {
      scope.emplace((*pool_)[1 % pool_->groups()], StreamScopeOptions{.include_grad = true});
    }
    auto const count = end - begin;
    Tensor<std::int64_t, R> const ids(device_, {2 * count, kIdsOfRow});
    for (int t = 0; t < 2; ++t) {
      copy(ids.rows(t * count, (t + 1) * count), ids_->rows(t * rows_ + begin, t * rows_ + end));
    }
    return ops::embedding_lookup(
        tape, *together_, {.ids = ids.reshaped({ids.count()}), .batch = count});
  }

  Device<R> device_;
  std::int64_t rows_;
  Parameters<R> parameters_;
  Tensor<float, R> first_ = parameters_.table("first", {11, 4}, init::uniform(-1, 1));
  Tensor<float, R> second_ = parameters_.table("second", {17, 2}, init::uniform(-1, 1));
  Tensor<float, R> w1_ =
      parameters_.dense("w1", {kNumbersOfRow + 6, kHiddenOfParts}, init::uniform(-1, 1));
  Tensor<float, R> b1_ = parameters_.dense("b1", {kHiddenOfParts}, init::uniform(-1, 1));
  Tensor<float, R> w2_ = parameters_.dense("w2", {kHiddenOfParts, 1}, init::uniform(-1, 1));
  std::optional<ops::EmbeddingTables<R>> together_;
  std::optional<Tensor<std::int64_t, R>> ids_;
  std::optional<Tensor<float, R>> x_;
  std::optional<Tensor<float, R>> labels_;
  std::optional<StreamPool<R>> pool_;
};

[[nodiscard]] inline ops::OptimizerRule rule_in_parts() {
  return {.kind = ops::OptimizerKind::adam, .learning_rate = 0.05F, .epsilon = 1e-3F};
}
/// Clips, so that the global norm of the gradients matters.
[[nodiscard]] inline OptimizerOptions clipped() {
  return {.clip_norm = 0.1F};
}

/// Calls `step` in each step, or captures it and replays it, and returns the losses.
template <Runtime R, class Step>
std::vector<float> losses_of(Device<R> const& device, bool is_captured, Step const& step) {
  std::optional<Tensor<float, R>> loss;
  std::optional<CapturedStep<R>> captured;
  if (is_captured) {
    captured.emplace(device, [&] { loss = step(); });
  }
  std::vector<float> losses;
  for (int i = 0; i < kStepsInParts; ++i) {
    if (captured) {
      captured->replay();
    } else {
      loss = step();
    }
    losses.push_back(to_host(*loss)[0]);
  }
  return losses;
}

/// Trains on the whole batch on one device.
template <Runtime R>
TrainedInParts train_whole(std::int64_t rows, bool in_one_lookup = false) {
  Device<R> const device;
  ModelInParts<R> model(device, rows, 0, 0, in_one_lookup);
  Optimizer<R> optimizer(device, rule_in_parts(), clipped());
  optimizer.add(model.parameters());
  GradientTape<R> tape(device);
  auto losses = losses_of(device, false, [&] {
    auto const loss = model.loss(tape, 0, rows);
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    return loss;
  });
  return {std::move(losses), model.values()};
}

inline void expect_near_whole(std::vector<float> const& found, std::vector<float> const& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

}  // namespace msstream::testing
