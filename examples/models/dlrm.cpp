// SPDX-License-Identifier: Apache-2.0
// DLRM (Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
// Systems, 2019): trains, evaluates, saves, and serves. docs/trainer.md explains every step.
#include "clicks.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace ops = ms::ops;

constexpr std::int64_t kWidth = 16;

struct Dlrm {
  Dlrm(ms::Device<> const& device, ms::Parameters<>& parameters)
      : tables(device, parameters.tables("table", clicks::table_shapes(kWidth))),
        bottom(parameters, "bottom", clicks::kNumbers, {64, kWidth}, {.last = relu}),
        top(parameters, "top", kWidth + 27 * 26 / 2, {64, 32, 1}) {}

  // Returns the logits [rows, 1] for the rows of a batch, or for those of the inputs of a served
  // model.
  auto forward(auto& tape, auto const& rows) const {
    auto const dense = rows.floats("dense");
    auto const vectors = ops::embedding_lookup(tape, tables, {ids_of(rows), dense.shape()[0]});
    return top(tape, ops::dot_interaction(tape, bottom(tape, dense), vectors));
  }
  auto operator()(auto const& rows) const { return forward(ms::no_tape, rows); }

  // The ids [26 * rows], field by field.
  static auto ids_of(ms::data::DeviceBatch<> const& batch) { return batch.ints("id0", "id25"); }
  static auto ids_of(ms::serve::Inputs<> const& inputs) {
    return inputs.ints("ids").reshaped({clicks::kFields * inputs.rows()});
  }

  static constexpr auto relu = ops::Activation::relu;
  ops::EmbeddingTables<> tables;
  ms::DenseStack<> bottom;
  ms::DenseStack<> top;
};

int main() {
  ms::Device<> const device;
  ms::StreamPool pool(device, {.groups = 2});
  ms::Parameters parameters(device, {.seed = 1});
  auto const model = std::make_shared<Dlrm const>(device, parameters);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  auto batches = clicks::batches(device, pool[0], 0, 300'000);
  ms::report::ProgressLine progress("training", 300'000);
  while (auto const batch = batches.next()) {
    tape.without_gradient(batch->floats("dense"));  // they are data
    auto const logits = model->forward(tape, *batch);
    auto const loss = ops::mean_bce_with_logits(tape, logits, clicks::labels_of(*batch));
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    progress.update(batch->first_sample() + batch->rows());
  }
  progress.finish();
  ms::checkpoint::save("dlrm.safetensors",
                       ms::checkpoint::Tensors(parameters, optimizer),
                       {.metadata = {{"position", to_string(batches.position())}}});

  parameters.freeze("*");
  ms::serve::InferencePool server(
      device,
      model,
      {.inputs = {ms::serve::field<float>("dense", clicks::kNumbers),
                  ms::serve::field<std::int64_t>(
                      "ids", clicks::kFields, ms::serve::Field::Order::columns)},
       .buckets = {512}});
  ms::metrics::Auc const auc(device);
  auto held_out = clicks::batches(device, pool[0], 300'000, 320'480);
  while (auto const batch = held_out.next()) {
    auto const logits = (*model)(*batch);
    auc.update(logits, clicks::labels_of(*batch));
    auto const dense = ms::to_host(batch->floats("dense"));
    auto const ids = clicks::ids_by_row(*batch);
    auto const answer = server.submit({.rows = batch->rows(), .values = {dense, ids}}).get();
    std::printf("%s", answer.values == ms::to_host(logits) ? "" : "served logits differ\n");
  }
  std::printf("held-out AUC %.4f\n", auc.value().value());
}
