// SPDX-License-Identifier: Apache-2.0
// Two towers for retrieval: users, by their histories, and items become vectors, trained by a
// softmax over the items of the batch, without a correction for popular items. Evaluates the recall
// of the five best items of the whole catalogue, saves, and serves the vectors of users.
#include "histories.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

#include <cstdio>
#include <memory>
#include <vector>

namespace ops = ms::ops;

struct TwoTower {
  explicit TwoTower(ms::Parameters<>& parameters)
      : items(parameters.table("items", {histories::kItems, 32})),
        user(parameters, "user", 32, {64, 32}),
        item(parameters, "item", 32, {64, 32}) {}

  // Return vectors of length 1: [items, 32], and, for the users of a batch or of the inputs of a
  // served model, [users, 32].
  auto candidates(auto& tape, ms::Tensor<std::int64_t> const& ids) const {
    return ops::l2_normalize(tape, item(tape, ops::gather_rows(tape, items, ids)));
  }
  auto users(auto& tape, auto const& rows) const {
    ops::Bags<> const history(rows.ints("history"), rows.offsets("history"));
    auto const mean = ops::embedding_lookup(tape, items, history, {.pooling = ops::Pooling::mean});
    return ops::l2_normalize(tape, user(tape, mean));
  }
  auto operator()(auto const& rows) const { return users(ms::no_tape, rows); }

  ms::Tensor<float> items;
  ms::DenseStack<> user;
  ms::DenseStack<> item;
};

int main() {
  ms::Device<> const device;
  ms::Parameters parameters(device, {.seed = 1});
  auto const model = std::make_shared<TwoTower const>(parameters);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);

  auto const diagonal = ms::arange(device, 256);  // user i of a batch is right with item i
  auto batches = histories::batches(device, 0, 60'000);
  ms::report::ProgressLine progress("training", 60'000 / 256 * 256);
  while (auto const batch = batches.next()) {
    ms::GradientTape tape(device);
    auto const ids = batch->ints("item");
    auto const items = model->candidates(tape, ids);
    auto const users = model->users(tape, *batch);
    // The score of each item of the batch for each user, by the angle between their vectors. The
    // item of a user is no negative where it occurs again.
    auto const scores = ops::matmul(tape, users, items, {.transpose_right = true, .factor = 10});
    tape.backward(ops::mean_softmax_cross_entropy(tape, scores, diagonal, {.candidate_ids = ids}));
    optimizer.step(tape);
    progress.update(batch->first_sample() + batch->rows());
  }
  progress.finish();
  ms::checkpoint::save("two_tower.safetensors", ms::checkpoint::Tensors(parameters, optimizer));

  parameters.freeze("*");
  auto const field = ms::serve::jagged_field<std::int64_t>("history", 32);
  ms::serve::InferencePool server(
      device, model, {.inputs = {field}, .outputs_per_row = 32, .buckets = {256}});
  auto const items = model->candidates(ms::no_tape, ms::arange(device, histories::kItems));
  auto const catalogue = ops::transpose(items);
  auto held_out = histories::batches(device, 60'000, 64'096);
  ms::metrics::RecallAtK const recall(device, {.k = 5});
  while (auto const batch = held_out.next()) {
    auto const history = ms::to_host(batch->ints("history"));
    auto const offsets = ms::to_host(batch->offsets("history"));
    auto const users = (*model)(*batch);
    recall.update({.scores = ops::matmul(users, catalogue), .targets = batch->ints("item")});
    auto const answer = server.submit({.rows = 256, .values = {{history, offsets}}}).get();
    std::printf("%s", answer.values == ms::to_host(users) ? "" : "served vectors differ\n");
  }
  std::printf("held-out recall@5 %.4f\n", recall.value().value());
}
