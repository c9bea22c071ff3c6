// SPDX-License-Identifier: Apache-2.0
// Replays captured steps for batches of any number of ids: one captured step for each capacity.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/captured_step.hpp>

#include <cstdint>
#include <iostream>
#include <vector>

namespace ms = msstream;

namespace {

constexpr std::int64_t kBags = 8;

struct Batch {
  std::int64_t count;                // ids
  ms::Tensor<std::int64_t> ids;      // [count]
  ms::Tensor<std::int64_t> offsets;  // [bags + 1], the last one is the count
};

// Returns a batch whose bags have 1, 2, 3 … ids, times `longer`.
Batch batch_of(ms::Device<> const& device, std::int64_t longer) {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t bag = 0; bag < kBags; ++bag) {
    offsets.push_back(offsets.back() + (bag + 1) * longer);
  }
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < offsets.back(); ++i) {
    ids.push_back(i * 7 % 100);
  }
  return {offsets.back(),
          ms::to_device(device, ids, {offsets.back()}),
          ms::to_device(device, offsets, {kBags + 1})};
}

// The tensors that a step reads: room for up to `capacity` ids in kBags bags.
struct Inputs {
  Inputs(ms::Device<> const& device, std::int64_t capacity)
      : ids(device, {capacity}), offsets(device, {kBags + 1}) {}

  ms::Tensor<std::int64_t> ids;
  ms::Tensor<std::int64_t> offsets;
};

class Training {
 public:
  explicit Training(ms::Device<> const& device)
      : parameters_(device, {.seed = 1}),
        table_(parameters_.table("items", {100, 4}, ms::init::normal())),
        optimizer_(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.1F}),
        tape_(device) {
    optimizer_.add(parameters_);
  }

  ms::Tensor<float> step(ms::Tensor<std::int64_t> const& ids,
                         ms::Tensor<std::int64_t> const& offsets) {
    tape_.clear();  // of a step that was stopped for lack of memory
    auto const pooled = ms::ops::embedding_lookup(tape_, table_, ms::ops::Bags<>(ids, offsets));
    auto loss = ms::ops::mean(tape_, ms::ops::multiply(tape_, pooled, pooled));
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    return loss;
  }

 private:
  ms::Parameters<> parameters_;
  ms::Tensor<float> table_;
  ms::Optimizer<> optimizer_;
  ms::GradientTape<> tape_;
};

std::vector<float> train_captured(ms::Device<> const& device, std::vector<Batch> const& batches) {
  Training training(device);
  std::vector<float> losses;
  ms::CapturedSteps steps(
      device,
      [&](std::int64_t capacity) { return Inputs(device, capacity); },
      [&](Inputs const& inputs) { return training.step(inputs.ids, inputs.offsets); },
      {.capacities = {64, 256, 1'024}});
  for (auto const& batch : batches) {
    auto const loss = steps.run(batch.count, [&](Inputs const& inputs) {
      ms::copy(inputs.ids.rows(0, batch.count), batch.ids);
      ms::copy(inputs.offsets, batch.offsets);
    });
    losses.push_back(ms::to_host(loss)[0]);
  }
  auto const& counts = steps.counts();
  teach::expect(counts.captures == 2 && counts.replays == 6, "two captured steps");
  std::cout << counts.replays << " of " << batches.size() << " batches by replays of "
            << counts.captures << " captured steps\n";
  return losses;
}

std::vector<float> train_eagerly(ms::Device<> const& device, std::vector<Batch> const& batches) {
  Training training(device);
  std::vector<float> losses;
  losses.reserve(batches.size());
  for (auto const& batch : batches) {
    losses.push_back(ms::to_host(training.step(batch.ids, batch.offsets))[0]);
  }
  return losses;
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    std::vector<Batch> batches;
    for (std::int64_t const longer : {1, 5, 1, 4, 1, 7, 1, 6}) {  // 36 to 252 ids
      batches.push_back(batch_of(device, longer));
    }
    teach::expect(train_captured(device, batches) == train_eagerly(device, batches),
                  "the losses have the bits of eager steps");
  });
}
