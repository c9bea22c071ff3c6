// SPDX-License-Identifier: Apache-2.0
// Captures a training step once and replays it for each batch of a file: with dropout, a schedule
// of the learning rate, and a last batch with fewer rows. The losses have the bits of eager steps.
#include "teach.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace ms = msstream;
namespace ops = ms::ops;

namespace {

constexpr std::int64_t kBatch = 64;
constexpr int kRows = 300;  // four full batches and one of 44 rows

void write_rows(std::filesystem::path const& path) {
  std::ofstream file(path);
  file << "label,x0,x1\n";
  for (int row = 0; row < kRows; ++row) {
    auto const x0 = row * 7 % 16 / 8.0 - 1;
    auto const x1 = row * 5 % 32 / 16.0 - 1;
    file << (x0 + x1 > 0 ? 1 : 0) << ',' << x0 << ',' << x1 << '\n';
  }
}

ms::data::DeviceLoader<> batches_of(ms::Device<> const& device, std::filesystem::path const& path) {
  auto const reader = std::make_shared<ms::data::CsvReader>(
      ms::data::TextFile(path),
      ms::data::TextOptions{.columns = {{.name = "label"}, {.name = "x", .fields = {"x0", "x1"}}}});
  return {device,
          device.default_group(),
          reader,
          {.batch_size = kBatch, .epochs = 3, .last_batch = ms::data::LastBatch::padded}};
}

// The tensors that the step reads, at the same places in every step.
struct Inputs {
  explicit Inputs(ms::Device<> const& device)
      : features(device, {kBatch, 2}), labels(device, {kBatch, 1}), mask(device, {kBatch, 1}) {}

  // Writes a batch into them, in the order of operations and without blocking.
  void take(ms::data::DeviceBatch<> const& batch) const {
    ms::copy(features, batch.floats("x"));
    ms::copy(labels, batch.floats("label"));
    ms::copy(mask, batch.mask());
  }

  ms::Tensor<float> features;
  ms::Tensor<float> labels;
  ms::Tensor<float> mask;  // 0 in rows that fill up the last batch
};

// A model with all that its training needs.
struct Training {
  explicit Training(ms::Device<> const& device)
      : parameters(device, {.seed = 1}),
        random(device, {.seed = 2}),
        model(parameters,
              "model",
              2,
              {16, 1},
              {.batch_norm = true, .dropout = 0.1F, .random = random}),
        optimizer(device,
                  {.kind = ops::OptimizerKind::adam, .learning_rate = 0.05F},
                  {.schedule = ms::Schedule::cosine({.steps = 15, .warmup = {.steps = 3}})}),
        tape(device),
        auc(device, {.capacity = 1'024, .weighted = true}) {
    optimizer.add(parameters);
  }

  // Issues a step and returns its loss.
  ms::Tensor<float> step(Inputs const& inputs) {
    tape.without_gradient(inputs.features);
    auto const logits = model(tape, inputs.features, {.mask = inputs.mask});
    auto loss = ops::mean_bce_with_logits(
        tape,
        logits,
        inputs.labels,
        {.weight = inputs.mask, .reduction = ops::LossReduction::weighted_mean});
    auc.update({.scores = logits, .labels = inputs.labels, .weights = inputs.mask});
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    random.advance();
    return loss;
  }

  ms::Parameters<> parameters;
  ms::RandomGenerator<> random;
  ms::DenseStack<> model;
  ms::Optimizer<> optimizer;
  ms::GradientTape<> tape;
  ms::metrics::Auc<> auc;
};

struct Trained {
  std::vector<float> losses;
  double auc;
};

Trained train_eagerly(ms::Device<> const& device, std::filesystem::path const& path) {
  Training training(device);
  Inputs const inputs(device);
  std::vector<float> losses;
  auto batches = batches_of(device, path);
  while (auto const batch = batches.next()) {
    inputs.take(*batch);
    losses.push_back(ms::to_host(training.step(inputs))[0]);
  }
  return {losses, training.auc.value().value()};
}

Trained train_captured(ms::Device<> const& device, std::filesystem::path const& path) {
  Training training(device);
  Inputs const inputs(device);
  std::optional<ms::Tensor<float>> loss;
  std::optional<ms::CapturedStep<>> step;
  std::vector<float> losses;
  auto batches = batches_of(device, path);
  while (auto const batch = batches.next()) {
    inputs.take(*batch);
    if (losses.empty()) {
      loss = training.step(inputs);  // the first step is eager, and makes what is made at first use
    } else {
      if (!step) {
        step.emplace(device, [&] { loss = training.step(inputs); });
      }
      step->replay();
    }
    losses.push_back(ms::to_host(*loss)[0]);
  }
  return {losses, training.auc.value().value()};
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    auto const path = std::filesystem::temp_directory_path() / "captured_step.csv";
    write_rows(path);
    auto const eager = train_eagerly(device, path);
    auto const captured = train_captured(device, path);
    std::filesystem::remove(path);
    auto const& losses = captured.losses;
    teach::expect(eager.losses.size() == 15, "a loss for each batch of three epochs");
    teach::expect(losses == eager.losses, "the losses of replays are those of eager steps");
    teach::expect(captured.auc == eager.auc, "and so is the AUC, without the rows that fill up");
    teach::expect(losses.back() < 0.8F * losses.front(), "the loss falls");
    std::cout << "a loss of " << losses.front() << " became " << losses.back() << '\n';
  });
}
