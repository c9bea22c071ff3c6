// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "datasets/counter_random.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

/// A model of few layers and many lookups in bags of varying length.
namespace benchmarks {

namespace ms = msstream;

struct JaggedShape {
  std::int64_t table_rows;
  std::int64_t batch;

  [[nodiscard]] std::int64_t bags() const { return axes::Jagged::kFields * batch; }
};

inline JaggedShape jagged_shape(std::int64_t divisor) {
  return {axes::Jagged::kTableRows / divisor, axes::Jagged::kBatch / divisor};
}

struct JaggedSetting {
  ms::ops::OptimizerKind optimizer = ms::ops::OptimizerKind::sgd;
  std::vector<std::int64_t> hotnesses;  ///< in ids per bag

  [[nodiscard]] std::string name() const {
    std::string capacities;
    for (auto const hotness : hotnesses) {
      capacities += fmt::format("{}{}", capacities.empty() ? "" : "_", hotness);
    }
    return fmt::format(
        "{}/capacity:{}", optimizer == ms::ops::OptimizerKind::adam ? "adam" : "sgd", capacities);
  }
};

/// Returns the number of losses that differ in any bit.
inline std::int64_t different(std::vector<float> const& left, std::vector<float> const& right) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    count += std::memcmp(&left[i], &right[i], sizeof(float)) == 0 ? 0 : 1;
  }
  return count;
}

/// Trains on a few batches repeatedly. Each batch is copied from pinned memory, with its own number
/// of keys.
template <ms::Runtime R>
class JaggedTraining {
 public:
  using Floats = ms::Tensor<float, R>;

  JaggedTraining(JaggedSetting const& setting, JaggedShape const& shape)
      : shape_(shape),
        tables_(
            device_,
            std::vector<std::int64_t>(static_cast<std::size_t>(Sizes::kFields), shape.table_rows),
            Sizes::kEmbeddingDim),
        tape_(device_),
        optimizer_(device_, {.kind = setting.optimizer, .learning_rate = 0.01F}),
        capacities_(setting.hotnesses.size()),
        steps_(
            device_,
            [this](std::int64_t capacity) { return Inputs(device_, shape_, capacity); },
            [this](Inputs const& inputs) { return train(inputs); },
            options(setting, shape)) {
    make_parameters();
    for (std::int64_t hotness = Sizes::kHotness / 2; hotness <= 3 * Sizes::kHotness / 2;
         ++hotness) {
      batches_.push_back(make_batch(hotness));
    }
    device_.default_group().synchronize();
  }

  /// Trains on the next batch by the captured step of its capacity. Returns the loss.
  Floats replay() {
    auto const& batch = next();
    return steps_.run(batch.count(), [&](Inputs const& inputs) { inputs.take(batch); });
  }
  /// Trains on the next batch eagerly, in inputs of exactly its size. Returns the loss.
  Floats eager() {
    auto const& batch = next();
    Inputs const inputs(device_, shape_, batch.count());
    inputs.take(batch);
    return train(inputs);
  }
  void keep(Floats const& loss, Floats const& losses, int place) const {
    ms::copy(losses.rows(place, place + 1), loss.reshaped({1}));
  }
  void synchronize() { device_.default_group().synchronize(); }

  /// Returns whether a step has been captured for every capacity.
  [[nodiscard]] bool warm() const { return counts().captures == capacities_; }
  [[nodiscard]] auto const& counts() const { return steps_.counts(); }
  /// Returns the mean share of the largest capacity that the batches fill.
  [[nodiscard]] double mean_of_capacity() const {
    double ids = 0;
    for (auto const& batch : batches_) {
      ids += static_cast<double>(batch.count());
    }
    return ids / static_cast<double>(batches_.size() * Sizes::kMostHotness * shape_.bags());
  }
  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }

 private:
  using Sizes = axes::Jagged;

  /// A batch in pinned host memory.
  struct Batch {
    ms::PinnedArray<std::int64_t, R> keys;
    ms::PinnedArray<std::int64_t, R> offsets;
    ms::PinnedArray<float, R> labels;

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(keys.count()); }
  };
  /// The inputs of a step on the device. Bags are ordered by sample; each sample has one bag per
  /// table.
  struct Inputs {
    ms::Tensor<std::int64_t, R> keys;     ///< [capacity]
    ms::Tensor<std::int64_t, R> offsets;  ///< [bags + 1]
    Floats labels;                        ///< [batch, 1]

    Inputs(ms::Device<R> const& device, JaggedShape const& shape, std::int64_t capacity)
        : keys(device, {capacity}),
          offsets(device, {shape.bags() + 1}),
          labels(device, {shape.batch, 1}) {}
    void take(Batch const& batch) const {
      ms::copy(keys.rows(0, batch.count()), batch.keys);
      ms::copy(offsets, batch.offsets);
      ms::copy(labels, batch.labels);
    }
  };
  using Steps = ms::CapturedSteps<R, Inputs, Floats>;
  static constexpr std::uint64_t kSeed = 1;

  static typename Steps::Options options(JaggedSetting const& setting, JaggedShape const& shape) {
    typename Steps::Options options{.log = {}};
    for (auto const hotness : setting.hotnesses) {
      options.capacities.push_back(hotness * shape.bags());
    }
    return options;
  }

  Batch const& next() {
    auto const& batch = batches_[next_];
    next_ = (next_ + 1) % batches_.size();
    return batch;
  }
  Floats train(Inputs const& inputs) {
    tape_.clear();
    auto const rows =
        ms::ops::hash_to_tables(tables_, ms::ops::Bags<R>(inputs.keys, inputs.offsets));
    auto hidden = ms::ops::embedding_lookup(tape_, tables_, rows, ms::ops::Pooling::mean);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      using ms::ops::Activation;
      hidden = ms::ops::dense(tape_,
                              hidden,
                              layers_[i].first,
                              layers_[i].second,
                              i + 1 < layers_.size() ? Activation::relu : Activation::none);
    }
    auto const loss = ms::ops::mean_bce_with_logits(tape_, hidden, inputs.labels);
    tape_.backward(loss);
    optimizer_.step(tape_);
    return loss;
  }

  [[nodiscard]] Floats random_tensor(ms::Shape const& shape, double limit, std::uint64_t number) {
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const uniform = ms::datasets::uniform_of(ms::datasets::random_bits(kSeed, number, i));
      values[i] = static_cast<float>(limit * (2 * uniform - 1));
    }
    return ms::to_device<float, R>(device_, values, shape);
  }
  void make_parameters() {
    constexpr double kTableLimit = 0.05;
    ms::copy(tables_.weights(), random_tensor(tables_.weights().shape(), kTableLimit, 0));
    optimizer_.add_table("tables", tables_.weights());
    std::int64_t inputs = Sizes::kFields * Sizes::kEmbeddingDim;
    for (auto const outputs : Sizes::kLayers) {
      auto const limit = std::sqrt(6.0 / static_cast<double>(inputs + outputs));
      layers_.push_back({random_tensor({inputs, outputs}, limit, layers_.size() + 1),
                         ms::zeros<float>(device_, {outputs})});
      optimizer_.add(fmt::format("weight{}", outputs), layers_.back().first);
      optimizer_.add(fmt::format("bias{}", outputs), layers_.back().second);
      inputs = outputs;
    }
  }
  /// Returns a random batch: labels, and bags whose number of keys differs from `hotness` by at
  /// most two. The keys are uniform over 40 bits.
  [[nodiscard]] Batch make_batch(std::int64_t hotness) const {
    std::uint64_t draw = 0;
    auto const draw_next = [&] {
      return ms::datasets::random_bits(kSeed + 1, static_cast<std::uint64_t>(hotness), draw++);
    };
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t bag = 0; bag < shape_.bags(); ++bag) {
      offsets.push_back(offsets.back() + hotness - 2 + static_cast<std::int64_t>(draw_next() % 5));
    }
    Batch batch{{device_, static_cast<std::size_t>(offsets.back())},
                {device_, offsets.size()},
                {device_, static_cast<std::size_t>(shape_.batch)}};
    std::ranges::copy(offsets, batch.offsets.elements().begin());
    for (auto& key : batch.keys.elements()) {
      key = static_cast<std::int64_t>(draw_next() >> 24U);
    }
    for (auto& label : batch.labels.elements()) {
      label = static_cast<float>(draw_next() % 2);
    }
    return batch;
  }

  ms::Device<R> device_;
  JaggedShape shape_;
  ms::ops::TableBatch<float, R> tables_;
  ms::GradientTape<R> tape_;
  ms::Optimizer<R> optimizer_;
  std::vector<std::pair<Floats, Floats>> layers_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
  std::uint64_t capacities_;
  Steps steps_;
};

}  // namespace benchmarks
