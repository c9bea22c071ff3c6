// SPDX-License-Identifier: Apache-2.0
// Three ways to have work of several batches, or of parts of one, in flight: uploads ahead of their
// use; the first stage of a batch beside the main stage of the batch before; parts of a batch.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/batch_parts.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/prefetch.hpp>
#include <msstream/step/two_stage.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <vector>

namespace ms = msstream;

namespace {

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kTables = 2;
constexpr std::int64_t kWidth = 4;
constexpr int kBatches = 8;

struct Batch {
  explicit Batch(ms::Device<> const& device, ms::StreamKind kind = ms::StreamKind::compute)
      : keys(device, {kTables, kRows}, kind), labels(device, {kRows, 1}, kind) {}

  ms::Tensor<std::int64_t> keys;
  ms::Tensor<float> labels;
};
struct Prepared {
  ms::ops::Bags<> rows;
  ms::Tensor<float> labels;
};
struct Features {
  ms::Tensor<float> pooled;  // [rows, tables * width]
  ms::Tensor<float> labels;

  Features rows(std::int64_t begin, std::int64_t end) const {
    return {pooled.rows(begin, end), labels.rows(begin, end)};
  }
};

// Reads batches, here numbers that it makes up.
struct Reader {
  // Reads the next batch; returns whether there is one.
  bool next() { return ++number < kBatches; }

  int number = -1;
};

// Issues the copies of the batch that was read, from pinned memory.
Batch upload(ms::Device<> const& device, Reader const& reader) {
  ms::PinnedArray<std::int64_t> const keys(device, kTables * kRows);
  ms::PinnedArray<float> const labels(device, kRows);
  std::int64_t key = reader.number;
  for (auto& one : keys.elements()) {
    one = key++ * 7 % 50;
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    labels.data()[row] = keys.data()[row] % 2 == 0 ? 1.0F : 0.0F;
  }
  Batch batch(device, ms::StreamKind::h2d);
  ms::copy(batch.keys, keys);
  ms::copy(batch.labels, labels);
  return batch;
}

struct Model {
  explicit Model(ms::Device<> const& device)
      : parameters(device, {.seed = 1}),
        tables(parameters.table("tables", {30 + 20, kWidth}), {30, 20}),
        layers(parameters, "layers", kTables * kWidth, {8, 1}),
        optimizer(device, {.kind = ms::ops::OptimizerKind::adagrad, .learning_rate = 0.1F}) {
    optimizer.add(parameters);
  }

  ms::Tensor<float> loss(auto& tape, Features const& batch) const {
    return ms::ops::mean_bce_with_logits(tape, layers(tape, batch.pooled), batch.labels);
  }

  ms::Parameters<> parameters;
  ms::ops::TableBatch<float> tables;
  ms::DenseStack<> layers;
  ms::Optimizer<> optimizer;
};

// Trains on one batch after the other, whose uploads are issued ahead.
std::vector<float> train_in_turn(ms::Device<> const& device) {
  ms::StreamPool pool(device, {.groups = 1});
  Model model(device);
  ms::GradientTape tape(device);
  std::vector<float> losses;
  auto const train = [&](Batch const& batch) {
    auto const rows = ms::ops::hash_to_tables(model.tables, batch.keys);
    Features const features{ms::ops::embedding_lookup(tape, model.tables, rows), batch.labels};
    auto const loss = model.loss(tape, features);
    tape.backward(loss);
    model.optimizer.step(tape);
    tape.clear();
    losses.push_back(ms::to_host(loss)[0]);
  };

  Reader reader;
  ms::Prefetch batches(pool[0], [&]() -> std::optional<Batch> {
    // Issues the copies of the next batch; empty: no more.
    return reader.next() ? std::optional(upload(device, reader)) : std::nullopt;
  });
  while (auto batch = batches.next()) {
    train(*batch);
  }
  return losses;
}

// Trains with the first stage of a batch beside the main stage of the batch before.
std::vector<float> train_in_stages(ms::Device<> const& device, bool is_captured) {
  ms::StreamPool pool(device, {.groups = 2});
  Model model(device);
  auto const& tables = model.tables;
  std::vector<float> losses;
  auto const keep = [&](std::optional<ms::Tensor<float>> const& loss) {
    if (loss) {
      losses.push_back(ms::to_host(*loss)[0]);
    }
  };
  Reader reader;
  ms::Prefetch batches(pool[0], [&]() -> std::optional<Batch> {
    return reader.next() ? std::optional(upload(device, reader)) : std::nullopt;
  });

  // Needs no parameter.
  auto const prepare = [&](ms::GradientTape<>& tape, Batch const& batch) {
    auto const rows = ms::ops::hash_to_tables(tables, batch.keys);
    tape.unique_rows(rows, tables.weights().shape()[0]);  // groups the ids now, not in the backward
    return Prepared{rows, batch.labels};
  };
  // The lookups.
  auto const embed = [&](ms::GradientTape<>& tape, Prepared const& batch) {
    return Features{ms::ops::embedding_lookup(tape, tables, batch.rows), batch.labels};
  };
  // The rest, up to the gradients.
  auto const main = [&](ms::GradientTape<>& tape, Features const& batch) {
    auto loss = model.loss(tape, batch);
    tape.backward(loss);
    return loss;
  };
  // Moves the parameters.
  auto const update = [&](ms::GradientTape<>& tape) { model.optimizer.step(tape); };

  if (!is_captured) {
    ms::TwoStage pipeline(device,
                          {.first = pool[1], .main = pool[0], .staleness = ms::Staleness::exact},
                          prepare,
                          embed,
                          main,
                          update);
    while (auto batch = batches.next()) {
      auto const loss_before = pipeline.run(*batch);  // of the batch before; empty for the first
      keep(loss_before);
    }
    auto const last_loss = pipeline.finish();
    keep(last_loss);
  } else {
    ms::CapturedTwoStage pipeline(
        device,
        {.first = pool[1], .main = pool[0]},
        [&] { return Batch(device); },  // the inputs, called twice
        prepare,
        embed,
        main,
        update);
    while (auto batch = batches.next()) {
      auto const loss_before = pipeline.run([&](Batch const& inputs) {
        ms::copy(inputs.keys, batch->keys);
        ms::copy(inputs.labels, batch->labels);
      });
      keep(loss_before);
    }
    keep(pipeline.finish());
  }
  return losses;
}

// Returns the loss of a batch whose parts are issued to two groups, and that of the whole batch.
std::vector<float> loss_of_parts(ms::Device<> const& device) {
  ms::StreamPool pool(device, {.groups = 2});
  Model const model(device);
  ms::GradientTape tape(device);
  auto const features = ms::ops::random_normal(device, {kRows, kTables * kWidth}, {1, "features"});
  auto const labels = ms::ops::random_uniform(device, {kRows, 1}, {1, "labels"});
  tape.without_gradient(features);
  Features const batch{features, labels};

  auto const loss = ms::loss_in_parts(tape, pool, kRows, 2, [&](ms::BatchPart part) {
    return model.loss(tape, batch.rows(part.begin, part.end));  // the mean over these rows
  });
  tape.backward(loss);
  return {ms::to_host(loss)[0], ms::to_host(model.loss(ms::no_tape, batch))[0]};
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    auto const in_turn = train_in_turn(device);
    teach::expect(in_turn.size() == kBatches && in_turn.back() < in_turn.front(), "losses fall");
    teach::expect(train_in_stages(device, false) == in_turn, "two stages change no bit");
    teach::expect(train_in_stages(device, true) == in_turn, "nor do captured ones");
    auto const losses = loss_of_parts(device);
    teach::expect(std::abs(losses[0] - losses[1]) < 1e-5F, "the mean over the whole batch");
    std::cout << "a loss of " << in_turn.front() << " became " << in_turn.back() << '\n';
  });
}
