// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "datasets/counter_random.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A model of many lookups and few layers, trained sequentially or in two stages.
namespace benchmarks {

namespace ms = msstream;

struct EmbeddingShape {
  std::int64_t table_rows;
  std::int64_t batch;
};

inline EmbeddingShape embedding_shape(std::int64_t divisor) {
  return {axes::Pipeline::kTableRows / divisor, axes::Pipeline::kBatch / divisor};
}

enum class TrainedIn : std::uint8_t { turn, two_stages, stale_stages };

struct PipelineSetting {
  int groups = 1;
  TrainedIn trained_in = TrainedIn::turn;
  bool captured = false;

  [[nodiscard]] std::string name() const {
    constexpr std::string_view names[] = {"in_turn", "exact", "one_step_stale"};
    return fmt::format("{}{}/groups:{}",
                       names[static_cast<int>(trained_in)],
                       captured ? "/captured" : "/eager",
                       groups);
  }
};

template <ms::Runtime R>
class EmbeddingModel {
 public:
  using Floats = ms::Tensor<float, R>;

  struct Batch {
    ms::Tensor<std::int64_t, R> keys;  ///< [fields, batch, hotness]
    Floats labels;                     ///< [batch, 1]
  };
  /// A batch in pinned host memory.
  struct HostBatch {
    ms::PinnedArray<std::int64_t, R> keys;
    ms::PinnedArray<float, R> labels;
  };
  struct Prepared {
    ms::ops::Bags<R> rows;
    Floats labels;
  };
  struct Features {
    Floats pooled;
    Floats labels;
  };

  /// Makes a model whose tables are filled with zeros, because times do not depend on their values.
  EmbeddingModel(ms::Device<R> const& device, std::int64_t table_rows)
      : tables_(device,
                std::vector<std::int64_t>(static_cast<std::size_t>(Sizes::kFields), table_rows),
                Sizes::kEmbeddingDim),
        optimizer_(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.01F}) {
    ms::fill_bytes(tables_.weights(), 0);
    optimizer_.add_table("tables", tables_.weights());
    std::int64_t inputs = Sizes::kFields * Sizes::kEmbeddingDim;
    for (auto const outputs : Sizes::kLayers) {
      std::vector<float> values(static_cast<std::size_t>(inputs * outputs));
      auto const limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] =
            limit * static_cast<float>(2.0 * ms::datasets::uniform_of(ms::datasets::random_bits(
                                                 kSeed, layers_.size(), i)) -
                                       1.0);
      }
      layers_.push_back({ms::to_device<float, R>(device, values, {inputs, outputs}),
                         ms::zeros<float>(device, {outputs})});
      optimizer_.add(fmt::format("weight{}", outputs), layers_.back().first);
      optimizer_.add(fmt::format("bias{}", outputs), layers_.back().second);
      inputs = outputs;
    }
  }

  /// Returns a random batch: keys uniform over 40 bits, and labels.
  static HostBatch random_batch(ms::Device<R> const& device,
                                std::int64_t rows,
                                std::uint64_t number) {
    std::uint64_t draw = 0;
    auto const next = [&] { return ms::datasets::random_bits(kSeed + 1, number, draw++); };
    HostBatch batch{{device, static_cast<std::size_t>(Sizes::kFields * rows * Sizes::kHotness)},
                    {device, static_cast<std::size_t>(rows)}};
    for (auto& key : batch.keys.elements()) {
      key = static_cast<std::int64_t>(next() >> 24U);
    }
    for (auto& label : batch.labels.elements()) {
      label = static_cast<float>(next() % 2);
    }
    return batch;
  }
  static Batch make_inputs(ms::Device<R> const& device, std::int64_t rows) {
    return {{device, {Sizes::kFields, rows, Sizes::kHotness}}, {device, {rows, 1}}};
  }

  Prepared prepare(Batch const& batch) const {
    return {ms::ops::hash_to_tables(tables_, batch.keys), batch.labels};
  }
  /// Groups equal ids, as the backward pass of the lookups needs them.
  void group_ids(ms::GradientTape<R>& tape, Prepared const& prepared) const {
    tape.unique_rows(prepared.rows, tables_.weights().shape()[0]);
  }
  Features embed(ms::GradientTape<R>& tape, Prepared const& prepared) const {
    return {ms::ops::embedding_lookup(tape, tables_, prepared.rows, ms::ops::Pooling::mean),
            prepared.labels};
  }
  Floats main(ms::GradientTape<R>& tape, Features const& features) const {
    auto hidden = features.pooled;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      using ms::ops::Activation;
      hidden = ms::ops::dense(tape,
                              hidden,
                              layers_[i].first,
                              layers_[i].second,
                              i + 1 < layers_.size() ? Activation::relu : Activation::none);
    }
    auto const loss = ms::ops::mean_bce_with_logits(tape, hidden, features.labels);
    tape.backward(loss);
    return loss;
  }
  void update(ms::GradientTape<R>& tape) { optimizer_.step(tape); }

 private:
  using Sizes = axes::Pipeline;
  static constexpr std::uint64_t kSeed = 1;

  ms::ops::TableBatch<float, R> tables_;
  ms::Optimizer<R> optimizer_;
  std::vector<std::pair<Floats, Floats>> layers_;
};

/// Trains on a few batches repeatedly, in a sequential or a two-stage step. Each batch is copied
/// from pinned memory.
template <ms::Runtime R>
class EmbeddingTraining {
 public:
  EmbeddingTraining(PipelineSetting const& setting, EmbeddingShape const& shape)
      : pool_(device_,
              {.groups = setting.groups,
               .merge_streams = true,
               .launch_threads = ms::LaunchThreads::none}),
        main_(pool_[0]),
        model_(device_, shape.table_rows),
        rows_(shape.batch) {
    for (std::uint64_t i = 0; i < kBatches; ++i) {
      batches_.push_back(Model::random_batch(device_, shape.batch, i));
    }
    if (setting.trained_in == TrainedIn::turn) {
      in_turn(setting.captured);
    } else {
      in_stages(setting.trained_in == TrainedIn::two_stages ? ms::Staleness::exact
                                                            : ms::Staleness::one_step_stale,
                setting.captured);
    }
    for (int i = 0; i < kWarmSteps; ++i) {
      step();
    }
    synchronize();
  }

  void step() {
    train_(batches_[next_]);
    next_ = (next_ + 1) % batches_.size();
  }
  void synchronize() { pool_.synchronize(); }
  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }

 private:
  using Model = EmbeddingModel<R>;
  using Batch = typename Model::Batch;
  using HostBatch = typename Model::HostBatch;
  using Tape = ms::GradientTape<R>;
  static constexpr std::size_t kBatches = 4;
  static constexpr int kWarmSteps = 6;

  [[nodiscard]] ms::StreamGroup<R> const& first_group() const { return pool_[pool_.groups() - 1]; }
  [[nodiscard]] Batch make_inputs() const { return Model::make_inputs(device_, rows_); }
  static void fill(Batch const& inputs, HostBatch const& batch) {
    ms::copy(inputs.keys, batch.keys);
    ms::copy(inputs.labels, batch.labels);
  }

  /// Makes a step that trains sequentially. The tables and their gradients run on the last group.
  /// Ids are grouped in parallel with the layers.
  void in_turn(bool captured) {
    auto const tape = std::make_shared<Tape>(device_);
    auto const train = [this, tape](Batch const& batch) {
      auto const features = [&] {
        ms::StreamScope<R> const side(first_group(), {.include_grad = true});
        auto const prepared = model_.prepare(batch);
        auto looked_up = model_.embed(*tape, prepared);
        model_.group_ids(*tape, prepared);
        return looked_up;
      }();
      model_.main(*tape, features);
      model_.update(*tape);
      tape->clear();
    };
    if (!captured) {
      train_ = [this, train](HostBatch const& batch) {
        auto const inputs = make_inputs();
        fill(inputs, batch);
        train(inputs);
      };
      return;
    }
    auto const inputs = std::make_shared<Batch>(make_inputs());
    auto const step = std::make_shared<std::optional<ms::CapturedStep<R>>>();
    train_ = [this, train, inputs, step, eager = 2](HostBatch const& batch) mutable {
      fill(*inputs, batch);
      if (eager-- > 0) {
        train(*inputs);
        return;
      }
      if (!*step) {
        step->emplace(device_, [&] { train(*inputs); });
      }
      (*step)->replay();
    };
  }

  void in_stages(ms::Staleness staleness, bool captured) {
    ms::TwoStageOptions<R> const options{
        .first = first_group(), .main = pool_[0], .staleness = staleness};
    auto const prepare = [this](Tape& tape, Batch const& batch) {
      auto prepared = model_.prepare(batch);
      model_.group_ids(tape, prepared);
      return prepared;
    };
    auto const embed = [this](Tape& tape, typename Model::Prepared const& prepared) {
      return model_.embed(tape, prepared);
    };
    auto const main = [this](Tape& tape, typename Model::Features const& features) {
      return model_.main(tape, features);
    };
    auto const update = [this](Tape& tape) { model_.update(tape); };
    if (captured) {
      using Pipeline = decltype(ms::CapturedTwoStage(
          device_, options, [this] { return make_inputs(); }, prepare, embed, main, update));
      auto const pipeline = std::make_shared<Pipeline>(
          device_, options, [this] { return make_inputs(); }, prepare, embed, main, update);
      train_ = [pipeline](HostBatch const& batch) {
        pipeline->run([&](Batch const& inputs) { fill(inputs, batch); });
      };
    } else {
      auto const fetch = [this, prepare](Tape& tape, HostBatch const& batch) {
        auto const inputs = make_inputs();
        fill(inputs, batch);
        return prepare(tape, inputs);
      };
      using Pipeline = decltype(ms::TwoStage(device_, options, fetch, embed, main, update));
      auto const pipeline =
          std::make_shared<Pipeline>(device_, options, fetch, embed, main, update);
      train_ = [pipeline](HostBatch const& batch) { pipeline->run(batch); };
    }
  }

  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::StreamScope<R> main_;
  Model model_;
  std::int64_t rows_;
  std::vector<HostBatch> batches_;
  std::size_t next_ = 0;
  std::function<void(HostBatch const&)> train_;
};

}  // namespace benchmarks
