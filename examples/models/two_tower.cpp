// SPDX-License-Identifier: Apache-2.0
// Two towers for retrieval (Yi et al., Sampling-Bias-Corrected Neural Modeling, 2019): users, by
// their histories, and items become vectors, trained by a softmax over the items of the batch.
#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

namespace ms = msstream;

#include "histories.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

struct TwoTower {
  explicit TwoTower(ms::Parameters<>& parameters)
      : items(parameters.table("items", {histories::kItems, 32})),
        user(parameters, "user", 32, {64, 32}),
        item(parameters, "item", 32, {64, 32}) {}

  // Returns a vector of length 1 for each user, [users, 32], from the bags of their histories.
  auto users(auto& tape, ms::ops::Bags<> const& history) const {
    auto const mean =
        ms::ops::embedding_lookup(tape, items, history, {.pooling = ms::ops::Pooling::mean});
    return ms::ops::l2_normalize(tape, user(tape, mean));
  }
  auto candidates(auto& tape, ms::Tensor<std::int64_t> const& ids) const {
    return ms::ops::l2_normalize(tape, item(tape, ms::ops::gather_rows(tape, items, ids)));
  }
  // Returns the score of every item for every user, [users, items].
  static auto scores(auto& tape, ms::Tensor<float> const& users, ms::Tensor<float> const& items) {
    return ms::ops::scale(
        tape, ms::ops::matmul(tape, users, ms::ops::transpose(tape, items)), 10.0F);
  }

  ms::Tensor<float> items;
  ms::DenseStack<> user;
  ms::DenseStack<> item;
};

ms::ops::Bags<> history_of(ms::data::DeviceBatch<> const& batch) {
  return {batch.ints("history"), batch.offsets("history")};
}

ms::Tensor<std::int64_t> numbers(ms::Device<> const& device, std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return ms::to_device(device, values, {count});
}

int main() {
  ms::Device<> const device;
  ms::StreamPool pool(device, {.groups = 2});
  ms::Parameters parameters(device, {.seed = 1});
  TwoTower const model(parameters);
  ms::Optimizer optimizer(device, {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  auto const diagonal = numbers(device, 256);  // user i of a batch is right with item i
  ms::data::DeviceLoader batches(device,
                                 pool[0],
                                 histories::users(0, 60'000),
                                 {.batch_rows = 256, .last_batch = ms::data::LastBatch::dropped});
  ms::report::ProgressLine progress("training", 60'000);
  std::int64_t step = 0;
  while (auto const batch = batches.next()) {
    auto const users = [&] {
      ms::StreamScope const tower(pool[1], {.include_grad = true});
      return model.users(tape, history_of(*batch));
    }();
    auto const scores = model.scores(tape, users, model.candidates(tape, batch->ints("item")));
    tape.backward(ms::ops::mean_softmax_cross_entropy(tape, scores, diagonal));
    optimizer.step(tape);
    tape.clear();
    progress.update(256 * ++step);
  }
  ms::checkpoint::save(
      "two_tower.safetensors", ms::checkpoint::Tensors(parameters, optimizer), {.step = step});

  auto const catalogue = model.candidates(ms::no_tape, numbers(device, histories::kItems));
  ms::data::DeviceLoader held_out(device, pool[0], histories::users(60'000, 64'000));
  std::int64_t found = 0;
  while (auto const batch = held_out.next()) {
    auto const users = model.users(ms::no_tape, history_of(*batch));
    auto const top =
        ms::to_host(ms::ops::top_k(model.scores(ms::no_tape, users, catalogue), 5).indices);
    auto const items = ms::to_host(batch->ints("item"));
    for (std::size_t i = 0; i < items.size(); ++i) {
      found += std::count(&top[5 * i], &top[5 * i] + 5, items[i]);
    }
  }
  std::printf("held-out recall@5 %.4f\n", static_cast<double>(found) / 4000);
}
