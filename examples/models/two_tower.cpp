// SPDX-License-Identifier: Apache-2.0
// Two towers for retrieval: users, by their histories, and items become vectors, trained by a
// softmax over the items of the batch, without a correction for popular items. Evaluates the five
// best items of the whole catalogue for each user.
#include "histories.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

namespace ops = ms::ops;

struct TwoTower {
  explicit TwoTower(ms::Parameters<>& parameters)
      : items(parameters.table("items", {histories::kItems, 32})),
        user(parameters, "user", 32, {64, 32}),
        item(parameters, "item", 32, {64, 32}) {}

  // Returns vectors of length 1, [items, 32].
  auto candidates(auto& tape, ms::Tensor<std::int64_t> const& ids) const {
    return ops::l2_normalize(tape, item(tape, ops::gather_rows(tape, items, ids)));
  }
  // Returns the score of each candidate for each user, [users, candidates], by the angle between
  // their vectors.
  auto scores(auto& tape, ops::Bags<> const& history, ms::Tensor<float> const& candidates) const {
    auto const mean = ops::embedding_lookup(tape, items, history, {.pooling = ops::Pooling::mean});
    auto const users = ops::l2_normalize(tape, user(tape, mean));
    return ops::scale(tape, ops::matmul(tape, users, ops::transpose(tape, candidates)), 10.0F);
  }

  ms::Tensor<float> items;
  ms::DenseStack<> user;
  ms::DenseStack<> item;
};

int main() {
  ms::Device<> const device;
  ms::StreamPool pool(device, {.groups = 2});
  ms::Parameters parameters(device, {.seed = 1});
  TwoTower const model(parameters);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  auto const diagonal = ms::arange(device, 256);  // user i of a batch is right with item i
  auto batches = histories::batches(device, pool[0], 0, 60'000);
  ms::report::ProgressLine progress("training", 60'000);
  while (auto const batch = batches.next()) {
    auto const items = model.candidates(tape, batch->ints("item"));
    auto const scores = model.scores(tape, histories::history_of(*batch), items);
    tape.backward(ops::mean_softmax_cross_entropy(tape, scores, diagonal));
    optimizer.step(tape);
    tape.clear();
    progress.update(batch->first_sample() + batch->rows());
  }
  progress.finish();
  ms::checkpoint::save("two_tower.safetensors",
                       ms::checkpoint::Tensors(parameters, optimizer),
                       {.step = batches.position().batches});

  auto const catalogue = model.candidates(ms::no_tape, ms::arange(device, histories::kItems));
  auto held_out = histories::batches(device, pool[0], 60'000, 64'096);
  std::int64_t found = 0;
  while (auto const batch = held_out.next()) {
    auto const scores = model.scores(ms::no_tape, histories::history_of(*batch), catalogue);
    auto const top = ms::to_host(ops::top_k(scores, 5).indices);
    auto const items = ms::to_host(batch->ints("item"));
    for (std::size_t i = 0; i < items.size(); ++i) {
      found += std::count(&top[5 * i], &top[5 * i] + 5, items[i]);
    }
  }
  std::printf("held-out recall@5 %.4f\n", static_cast<double>(found) / 4096);
}
