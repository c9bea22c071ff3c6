// SPDX-License-Identifier: Apache-2.0
// A training that writes checkpoints and reports while it runs, stops in the middle of an epoch,
// and goes on with the same bits: the next batches, the numbers of dropout, the learning rates.
#include "teach.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/report/run_report.hpp>
#include <msstream/report/tensorboard.hpp>
#include <msstream/step/dense_stack.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace ms = msstream;
namespace ops = ms::ops;

namespace {

/// 1,600 rows of two numbers, and whether the first one is the larger.
class Rows final : public ms::data::Reader {
 public:
  [[nodiscard]] ms::data::Schema const& schema() const override { return schema_; }
  bool next(ms::data::Chunk& chunk) override {
    bool const has_rows = row_ < 1'600;
    for (auto const end = has_rows ? row_ + 100 : row_; row_ < end; ++row_) {
      auto const a = static_cast<float>(row_ * 7919 % 1000) / 1000;
      auto const b = static_cast<float>(row_ * 104729 % 1000) / 1000;
      chunk.floats("numbers").insert(chunk.floats("numbers").end(), {a, b});
      chunk.floats("label").push_back(a > b ? 1.0F : 0.0F);
    }
    return has_rows;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }

 private:
  ms::data::Schema schema_{{{.name = "numbers", .width = 2}, {.name = "label"}}};
  std::int64_t row_ = 0;
};

/// Trains up to a step, from the last checkpoint of the folder if there is one. Returns the losses.
std::vector<float> train(std::filesystem::path const& folder, std::int64_t last_step) {
  ms::Device const device;
  ms::Parameters parameters(device, {.seed = 1});
  ms::RandomGenerator random(device, {.seed = 1});
  ms::DenseStack const hidden(parameters, "hidden", 2, {16}, {.last = ops::Activation::relu});
  ms::DenseStack const logit(parameters, "logit", 16, {1});
  ms::Optimizer optimizer(device,
                          {.kind = ops::OptimizerKind::adamw, .learning_rate = 0.02F},
                          {.schedule = ms::Schedule::cosine({.steps = 60})});
  optimizer.add(parameters);
  ms::checkpoint::Tensors const tensors(parameters, optimizer, random);

  // An epoch has 25 batches.
  ms::data::LoaderOptions options{
      .batch_size = 64, .epochs = 2, .shuffle_rows = ms::data::kWholeEpoch};
  std::int64_t step = 0;
  if (auto const latest = ms::checkpoint::latest(folder)) {
    auto const loaded = ms::checkpoint::load(*latest, tensors);
    step = loaded.step;
    options.start = ms::data::LoaderPosition::parse(loaded.metadata.at("position"));
  }
  ms::data::DeviceLoader batches(device, device.default_group(), std::make_shared<Rows>(), options);

  ms::checkpoint::Writer writer(
      tensors, {.folder = folder, .keep_last = 2, .keep_best = 1, .higher_is_better = false});
  ms::report::ProgressLine progress("training", last_step, {.out = &std::cout, .unit = "steps"});
  progress.start_at(step);
  ms::report::TensorBoardWriter board(folder / "events");
  ms::report::RunReport report;
  report.set("options/last_step", last_step);
  report.set("first_step", step);

  std::vector<float> losses;
  ms::GradientTape tape(device);
  while (step < last_step) {
    auto const batch = batches.next().value();
    random.advance();
    auto const kept =
        ops::dropout(tape, hidden(tape, batch.floats("numbers")), {.rate = 0.1F}, random, "hidden");
    auto const mean = ops::mean_bce_with_logits(
        tape, logit(tape, kept), batch.floats("label").reshaped({batch.rows(), 1}));
    tape.backward(mean);
    optimizer.step(tape);
    tape.clear();
    float const loss = losses.emplace_back(ms::to_host(mean)[0]);
    ++step;
    board.scalar("loss/train", loss, step);
    report.append("losses", loss);
    progress.update(step, {{"loss", loss}});
    if (step % 10 == 0) {
      writer.save({.step = step,
                   .metadata = {{"position", to_string(batches.position())}},
                   .metric = loss});
    }
  }
  writer.wait();
  progress.finish();
  report.write(folder / "run.json");
  return losses;
}

}  // namespace

int main() {
  return teach::run([] {
    auto const folder = std::filesystem::temp_directory_path() /
                        ("msstream-checkpoints-" + std::to_string(::getpid()));
    auto const at_once = train(folder / "at_once", 50);
    auto in_parts = train(folder / "in_parts", 30);  // stops within the second epoch
    for (auto const loss : train(folder / "in_parts", 50)) {
      in_parts.push_back(loss);
    }
    auto const contents_of_last = [&](char const* run) {
      std::ifstream file(ms::checkpoint::latest(folder / run).value(), std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    bool const equal_files = contents_of_last("at_once") == contents_of_last("in_parts");
    auto const latest = ms::checkpoint::latest(folder / "in_parts");
    std::filesystem::remove_all(folder);
    teach::expect(at_once == in_parts,
                  "a training that stops at step 30 and goes on has losses of the same bits");
    teach::expect(equal_files, "and the same parameters, moments and positions in the end");
    teach::expect(latest && latest->filename() == "checkpoint-000000050.safetensors",
                  "the last checkpoint is that of step 50");
  });
}
