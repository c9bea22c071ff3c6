// SPDX-License-Identifier: Apache-2.0
// Deep Interest Network (Zhou et al., 2018): the probability that a user clicks an item, by
// attention over the user's history. Trains, saves, loads into a new model, and evaluates and
// serves that.
#include "histories.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <span>
#include <vector>

namespace ops = ms::ops;

constexpr std::int64_t kWidth = 16;

// A hidden layer with the activation Dice, and the output.
ms::DenseStackOptions const kDice{.activation = ms::TrainedActivation::dice};

struct Din {
  explicit Din(ms::Parameters<>& parameters)
      : items(parameters.table("items", {histories::kItems, kWidth})),
        attention(parameters, "attention", 3 * kWidth, {36, 1}, kDice),
        head(parameters, "head", 3 * kWidth, {64, 1}, kDice) {}

  // Returns the logits [users, 1] for the histories of users and an item for each user, those of a
  // batch or of the inputs of a served model.
  auto forward(auto& tape, auto const& users) const {
    auto const history = users.ints("history");
    auto const offsets = users.offsets("history");
    auto const item = users.ints("item");
    auto const rows =
        ops::embedding_lookup(tape, items, {history, offsets}, {.pooling = ops::Pooling::none});
    auto const wanted = ops::gather_rows(tape, items, item);
    // The wanted item beside each item of its user's history, however long that is.
    auto const beside = ops::repeat_rows(tape, wanted, offsets, history.count());
    // A weight for each item of the history, by the item, its difference from the wanted one, and
    // their product.
    auto const pairs = ops::concat(
        tape,
        std::vector{rows, ops::subtract(tape, rows, beside), ops::multiply(tape, rows, beside)});
    auto const weights = ops::jagged_softmax(tape, attention(tape, pairs), offsets);
    auto const weighted = ops::multiply(tape, rows, weights);
    auto const interest = ops::segment_reduce(tape, weighted, offsets, ops::SegmentReduction::sum);
    auto const features = std::vector{interest, wanted, ops::multiply(tape, interest, wanted)};
    return head(tape, ops::concat(tape, features));
  }
  auto operator()(auto const& users) const { return forward(ms::no_tape, users); }

  ms::Tensor<float> items;
  ms::DenseStack<> attention;
  ms::DenseStack<> head;
};

// Returns the answers to one query for each user of a batch. All queries are submitted before the
// first answer is awaited.
std::vector<float> answers_to(auto& server, ms::data::DeviceBatch<> const& batch) {
  auto const history = ms::to_host(batch.ints("history"));
  auto const offsets = ms::to_host(batch.offsets("history"));
  auto const items = ms::to_host(batch.ints("item"));
  std::vector<std::future<ms::serve::Answer>> answers;
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto const length = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
    std::span const its_history(history.data() + offsets[i], length);
    answers.push_back(server.submit({.rows = 1, .values = {its_history, std::span(&items[i], 1)}}));
  }
  std::vector<float> values;
  for (auto& answer : answers) {
    values.push_back(answer.get().values[0]);
  }
  return values;
}

int main() {
  ms::Device<> const device;
  ms::Parameters parameters(device, {.seed = 1});
  Din const model(parameters);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  auto batches = histories::batches(device, 0, 300'000, true);
  ms::report::ProgressLine progress("training", 300'000);
  while (auto const batch = batches.next()) {
    tape.backward(
        ops::mean_bce_with_logits(tape, model.forward(tape, *batch), histories::labels_of(*batch)));
    optimizer.step(tape);
    tape.clear();
    progress.update(batch->first_sample() + batch->rows());
  }
  progress.finish();
  ms::checkpoint::save("din.safetensors", ms::checkpoint::Tensors(parameters));

  ms::Parameters loaded(device);
  auto const served = std::make_shared<Din const>(loaded);
  ms::checkpoint::load("din.safetensors", ms::checkpoint::Tensors(loaded));
  loaded.freeze("*");
  ms::serve::InferencePool server(device,
                                  served,
                                  {.inputs = {ms::serve::jagged_field<std::int64_t>("history", 32),
                                              ms::serve::field<std::int64_t>("item", 1)},
                                   .buckets = {256},
                                   .max_batch_delay = std::chrono::milliseconds(10)});
  ms::metrics::Auc const auc(device);
  auto held_out = histories::batches(device, 300'000, 310'240, true);
  while (auto const batch = held_out.next()) {
    auto const logits = (*served)(*batch);
    auc.update(logits, histories::labels_of(*batch));
    auto const answers = answers_to(server, *batch);
    std::printf("%s", histories::close(answers, logits) ? "" : "served logits differ\n");
  }
  std::printf("held-out AUC %.4f\n", auc.value().value());
}
