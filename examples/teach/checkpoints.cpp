// SPDX-License-Identifier: Apache-2.0
// A training that writes checkpoints and reports while it runs, stops in the middle, and goes on
// with the same bits.
#include "teach.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/report/run_report.hpp>
#include <msstream/report/tensorboard.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ms = msstream;

namespace {

/// A layer that learns whether the first of two numbers is the larger one.
struct Model {
  explicit Model(ms::Device<> const& device)
      : weight(ms::zeros<float>(device, {2, 1})),
        bias(ms::zeros<float>(device, {1})),
        optimizer(device, {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.05F}) {
    optimizer.add("weight", weight);
    optimizer.add("bias", bias);
  }

  template <class Visit>
  void visit(Visit&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  ms::Tensor<float> weight;
  ms::Tensor<float> bias;
  ms::Optimizer<> optimizer;
};

float train_step(ms::Device<> const& device, Model& model, std::int64_t step) {
  constexpr std::int64_t kBatch = 64;
  std::vector<float> numbers;
  std::vector<float> labels;
  for (std::int64_t row = 0; row < kBatch; ++row) {
    auto const a = static_cast<float>((step * kBatch + row) * 7919 % 1000) / 1000;
    auto const b = static_cast<float>((step * kBatch + row) * 104729 % 1000) / 1000;
    numbers.insert(numbers.end(), {a, b});
    labels.push_back(a > b ? 1.0F : 0.0F);
  }
  ms::GradientTape tape(device);
  auto const input = ms::to_device(device, numbers, {kBatch, 2});
  tape.without_gradient(input);
  auto const logits = ms::ops::dense(tape, input, model.weight, model.bias);
  auto const loss =
      ms::ops::mean_bce_with_logits(tape, logits, ms::to_device(device, labels, {kBatch, 1}));
  tape.backward(loss);
  model.optimizer.step(tape);
  return ms::to_host(loss)[0];
}

/// Trains up to a step, from the last checkpoint of the folder if there is one; returns the loss.
float train(std::filesystem::path const& folder, std::int64_t last_step) {
  ms::Device device;
  Model model(device);
  ms::checkpoint::Tensors const tensors(model, model.optimizer);

  std::int64_t step = 0;
  if (auto const latest = ms::checkpoint::latest(folder)) {
    step = ms::checkpoint::load(*latest, tensors).step;
  }

  ms::checkpoint::Writer writer(
      tensors, {.folder = folder, .keep_last = 2, .keep_best = 1, .higher_is_better = false});
  ms::report::ProgressLine progress("training", last_step, {.out = &std::cout, .unit = "steps"});
  progress.start_at(step);
  ms::report::TensorBoardWriter board(folder / "events");
  ms::report::RunReport report;
  report.set("options/last_step", last_step);
  report.set("first_step", step);

  float loss = 0;
  while (step < last_step) {
    loss = train_step(device, model, step++);
    board.scalar("loss/train", loss, step);
    report.append("losses", loss);
    progress.update(step, {{"loss", loss}});
    if (step % 10 == 0) {
      writer.save(
          {.step = step, .metadata = {{"next_row", std::to_string(64 * step)}}, .metric = loss});
    }
  }
  writer.wait();
  progress.finish();
  report.write(folder / "run.json");
  return loss;
}

}  // namespace

int main() {
  return teach::run([] {
    auto const folder = std::filesystem::temp_directory_path() /
                        ("msstream-checkpoints-" + std::to_string(::getpid()));
    float const at_once = train(folder / "at_once", 50);
    train(folder / "in_parts", 30);
    float const in_parts = train(folder / "in_parts", 50);
    auto const latest = ms::checkpoint::latest(folder / "in_parts");
    std::filesystem::remove_all(folder);
    teach::expect(at_once == in_parts,
                  "a training that stops at step 30 and goes on has the same bits");
    teach::expect(latest && latest->filename() == "checkpoint-000000050.safetensors",
                  "the last checkpoint is that of step 50");
  });
}
