// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/capture/captured_fixture.hpp"
#include "stream/stream.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// The initial parameters of a model with embedding tables, and the batches that it is trained on.
struct EmbeddingProblem {
  static constexpr std::int64_t kBatch = 12;
  static constexpr std::int64_t kHotness = 3;
  static constexpr std::int64_t kWidth = 4;
  static constexpr int kTowers = 3;
  static inline std::vector<std::int64_t> const table_rows{30, 7, 50};
  static constexpr std::int64_t kTables = 3;

  struct Batch {
    Integers keys;  ///< [tables, batch, hotness]
    Floats labels;  ///< [batch, 1]
  };

  /// Makes `count` batches of few different keys, so that every batch changes rows that the next
  /// one reads.
  EmbeddingProblem(Random& random, int count) {
    for (int i = 0; i < count; ++i) {
      batches.push_back(
          {random.integers(kTables * kBatch * kHotness, 0, 20), random.reals(kBatch, 0.0F, 1.0F)});
    }
  }

  Random random;
  Floats tables = random.reals((30 + 7 + 50) * kWidth);
  std::vector<Floats> weights = {
      random.reals(kTables * kWidth), random.reals(kTables* kWidth), random.reals(kTables* kWidth)};
  std::vector<Batch> batches;
};

/// The groups, launch threads and streams with which a model is trained.
struct TrainedBy {
  int groups = 1;
  LaunchThreads launch_threads = LaunchThreads::none;
  bool merge_streams = false;
};

/// Returns configurations with one to four groups, each without launch threads, with launch
/// threads, and with merged streams.
[[nodiscard]] inline std::vector<TrainedBy> ways_to_train() {
  std::vector<TrainedBy> ways;
  for (int const groups : {1, 2, 3, 4}) {
    ways.push_back({groups, LaunchThreads::none, false});
    ways.push_back({groups, LaunchThreads::per_group, false});
    ways.push_back({groups, LaunchThreads::none, true});
  }
  return ways;
}

/// Returns the position of the newest operation on the group's compute stream. An event at that
/// position covers all work of the stream.
template <Runtime R>
[[nodiscard]] order::Position newest(StreamGroup<R> const& group) {
  auto const stream = group.compute();
  auto const& slot = stream.engine().slot();
  return {slot.index, slot.reserved.load()};
}

/// A model of a batch of embedding tables and a few towers of one layer, which run on different
/// groups, as the stages that a pipeline takes. The last group is for the first stage.
template <Runtime R>
class EmbeddingModel {
 public:
  using Floats32 = Tensor<float, R>;
  using Problem = EmbeddingProblem;

  struct Batch {
    Tensor<std::int64_t, R> keys;
    Floats32 labels;

    explicit Batch(Device<R> const& device)
        : keys(device, {Problem::kTables, Problem::kBatch, Problem::kHotness}),
          labels(device, {Problem::kBatch, 1}) {}
  };
  struct Prepared {
    ops::Bags<R> rows;
    Floats32 labels;
  };
  struct Features {
    Floats32 pooled;
    Floats32 labels;
  };

  explicit EmbeddingModel(Problem const& problem, TrainedBy const& by = {})
      : problem_(problem),
        pool(device,
             {.groups = by.groups,
              .merge_streams = by.merge_streams,
              .launch_threads = by.launch_threads}),
        tables(device, Problem::table_rows, Problem::kWidth),
        optimizer(device, rule) {
    copy(tables.weights(), to_device<float, R>(device, problem.tables, tables.weights().shape()));
    for (auto const& values : problem.weights) {
      auto const number = towers_.size();
      towers_.push_back(
          {to_device<float, R>(device, values, {Problem::kTables * Problem::kWidth, 1}),
           zeros<float>(device, {1})});
      optimizer.add(fmt::format("weight{}", number), towers_.back().first);
      optimizer.add(fmt::format("bias{}", number), towers_.back().second);
    }
  }

  /// Copies the batch of this number to new tensors on the device.
  [[nodiscard]] Batch batch(int number) const {
    Batch made(device);
    fill(made, number);
    return made;
  }
  void fill(Batch const& into, int number) const {
    auto const& from = problem_.batches[static_cast<std::size_t>(number)];
    upload(into.keys, from.keys);
    upload(into.labels, from.labels);
  }

  Prepared prepare(GradientTape<R>& tape, Batch const& batch) const {
    Prepared prepared{ops::hash_to_tables(tables, batch.keys, 3), batch.labels};
    tape.unique_rows(prepared.rows, table_rows());
    return prepared;
  }
  Features embed(GradientTape<R>& tape, Prepared const& prepared) const {
    return {ops::embedding_lookup(tape, tables, prepared.rows, ops::Pooling::mean),
            prepared.labels};
  }
  /// Issues the towers, the loss and its backward, and returns the loss.
  Floats32 main(GradientTape<R>& tape, Features const& features) const {
    std::vector<Floats32> logits;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
      StreamScope const scope(pool[static_cast<int>(i) % std::max(1, pool.groups() - 1)],
                              {.include_grad = true});
      logits.push_back(ops::dense(tape, features.pooled, towers_[i].first, towers_[i].second));
    }
    auto const loss = ops::mean_bce_with_logits(tape, ops::add(tape, logits), features.labels);
    tape.backward(loss);
    return loss;
  }
  void update(GradientTape<R>& tape) { optimizer.step(tape); }

  /// Returns the values of the tables and the tower weights, for comparing two trainings bit by
  /// bit.
  [[nodiscard]] Floats parameters() const {
    auto all = to_host(tables.weights());
    for (auto const& tower : towers_) {
      auto const weight = to_host(tower.first);
      all.insert(all.end(), weight.begin(), weight.end());
    }
    return all;
  }
  [[nodiscard]] std::int64_t table_rows() const { return tables.weights().shape()[0]; }
  [[nodiscard]] TwoStageOptions<R> options(Staleness staleness) const {
    return {.first = pool[pool.groups() - 1], .main = pool[0], .staleness = staleness};
  }

 private:
  template <Element T>
  void upload(Tensor<T, R> const& to, std::vector<T> const& values) const {
    PinnedArray<T, R> staged(device, values.size());
    std::copy(values.begin(), values.end(), staged.elements().begin());
    copy(to, staged);
  }

  Problem const& problem_;

 public:
  static constexpr ops::OptimizerRule rule{.kind = ops::OptimizerKind::adam,
                                           .learning_rate = 0.05F};
  Device<R> device;
  StreamPool<R> pool;
  ops::TableBatch<float, R> tables;
  Optimizer<R> optimizer;

 private:
  std::vector<std::pair<Floats32, Floats32>> towers_;
};

/// The stages of a model as functions, each of which first calls `before` with the name of the
/// stage and the number of its earlier calls.
template <Runtime R>
class ModelStages {
 public:
  using Model = EmbeddingModel<R>;
  using Before = std::function<void(std::string const& stage, int number)>;

  explicit ModelStages(Model& model, Before before = {})
      : model_(model), before_(std::move(before)) {}

  [[nodiscard]] auto prepare() {
    return [this](GradientTape<R>& tape, typename Model::Batch const& batch) {
      NameScope const name(begin("prepare", prepared_));
      return model_.prepare(tape, batch);
    };
  }
  [[nodiscard]] auto embed() {
    return [this](GradientTape<R>& tape, typename Model::Prepared const& prepared) {
      NameScope const name(begin("embed", embedded_));
      return model_.embed(tape, prepared);
    };
  }
  [[nodiscard]] auto main() {
    return [this](GradientTape<R>& tape, typename Model::Features const& features) {
      NameScope const name(begin("main", trained_));
      return model_.main(tape, features);
    };
  }
  [[nodiscard]] auto update() {
    return [this](GradientTape<R>& tape) {
      NameScope const name(begin("update", updated_));
      model_.update(tape);
    };
  }

 private:
  std::string begin(std::string const& stage, int& count) {
    auto const number = count++;
    if (before_) {
      before_(stage, number);
    }
    return fmt::format("{}{}", stage, number);
  }

  Model& model_;
  Before before_;
  int prepared_ = 0;
  int embedded_ = 0;
  int trained_ = 0;
  int updated_ = 0;
};

/// A model with embedding tables, and its pipeline of two stages.
template <Runtime R>
class Pipelined {
 public:
  using Model = EmbeddingModel<R>;

  Pipelined(EmbeddingProblem const& problem,
            Staleness staleness,
            TrainedBy const& by = {.groups = 2},
            typename ModelStages<R>::Before before = {})
      : model(problem, by),
        stages_(model, std::move(before)),
        pipeline(model.device,
                 model.options(staleness),
                 stages_.prepare(),
                 stages_.embed(),
                 stages_.main(),
                 stages_.update()) {
    model.optimizer.add_table("tables", model.tables.weights());
  }

  std::optional<Tensor<float, R>> run(int batch) { return pipeline.run(model.batch(batch)); }
  std::optional<Tensor<float, R>> finish() { return pipeline.finish(); }

  Model model;

 private:
  ModelStages<R> stages_;

 public:
  TwoStage<R,
           typename Model::Batch,
           typename Model::Prepared,
           typename Model::Features,
           Tensor<float, R>>
      pipeline;
};

/// The losses of training and the parameters after it.
struct Trained {
  Floats losses;
  Floats parameters;

  friend bool operator==(Trained const& left, Trained const& right) {
    return same_bits(left.losses, right.losses) && same_bits(left.parameters, right.parameters);
  }
};

/// Collects losses on the host without waiting for each one.
template <Runtime R>
class Losses {
 public:
  explicit Losses(Device<R> device) : device_(std::move(device)) {}
  void add(std::optional<Tensor<float, R>> const& loss) {
    if (loss) {
      copy(staged_.emplace_back(device_, 1), *loss);
    }
  }
  [[nodiscard]] Floats on_host() const {
    Floats values;
    for (auto const& staged : staged_) {
      staged.wait();
      values.push_back(staged.const_elements().front());
    }
    return values;
  }

 private:
  Device<R> device_;
  std::vector<PinnedArray<float, R>> staged_;
};

/// Trains `pipelined` on `batches`, and finishes the pipeline after each batch in `ends`. A call
/// that throws std::runtime_error gives no loss.
template <Runtime R, class Pipelined>
Trained train(Pipelined& pipelined,
              std::vector<int> const& batches,
              std::set<int> const& ends = {}) {
  Losses<R> losses(pipelined.model.device);
  auto const add = [&](auto&& issue) {
    try {
      losses.add(issue());
    } catch (std::runtime_error const&) {
      return;
    }
  };
  for (int const number : batches) {
    add([&] { return pipelined.run(number); });
    if (ends.contains(number)) {
      add([&] { return pipelined.finish(); });
    }
  }
  add([&] { return pipelined.finish(); });
  EXPECT_FALSE(pipelined.finish()) << "nothing is in flight";
  return {losses.on_host(), pipelined.model.parameters()};
}

/// Trains without a pipeline, one batch after the other, with one gradient tape.
template <Runtime R>
Trained train_in_turn(EmbeddingProblem const& problem, std::vector<int> const& batches) {
  EmbeddingModel<R> model(problem);
  model.optimizer.add_table("tables", model.tables.weights());
  GradientTape<R> tape(model.device);
  Losses<R> losses(model.device);
  for (int const number : batches) {
    auto const features = model.embed(tape, model.prepare(tape, model.batch(number)));
    losses.add(model.main(tape, features));
    model.update(tape);
    tape.clear();
  }
  return {losses.on_host(), model.parameters()};
}

/// Trains without a pipeline on stale tables: each lookup reads a copy of the tables from before
/// the latest update. The gradients of the tables are computed without the tape.
template <Runtime R>
Trained train_on_old_tables(EmbeddingProblem const& problem, std::vector<int> const& batches) {
  EmbeddingModel<R> model(problem);
  auto const& tables = model.tables.weights();
  auto const state = ops::make_state(model.device, model.rule.kind, tables.shape());
  ops::StepCounter<R> counter(model.device);
  GradientTape<R> tape(model.device);
  Losses<R> losses(model.device);
  Tensor<float, R> const old(model.device, tables.shape());
  copy(old, tables);
  for (int const number : batches) {
    auto const batch = model.batch(number);
    auto const rows = ops::hash_to_tables(model.tables, batch.keys, 3);
    auto const pooled =
        ops::embedding_lookup(old, rows, ops::LookupOptions<R>{.pooling = ops::Pooling::mean});
    copy(old, tables);
    auto const features = pooled.reshaped(
        {EmbeddingProblem::kBatch, EmbeddingProblem::kTables * EmbeddingProblem::kWidth});
    losses.add(model.main(tape, {features, batch.labels}));
    auto const gradient = ops::embedding_gradient(rows,
                                                  ops::deduplicate(rows, model.table_rows()),
                                                  model.table_rows(),
                                                  ops::Pooling::mean,
                                                  tape.gradient(features).reshaped(pooled.shape()));
    counter.advance(model.rule);
    ops::update_rows(model.rule, counter, tables, gradient, state);
    model.update(tape);
    tape.clear();
  }
  return {losses.on_host(), model.parameters()};
}

}  // namespace msstream::testing
