// SPDX-License-Identifier: Apache-2.0
// Trains a model on one rank and, with the same rows, on four ranks, which are threads: each rank
// computes the gradients of its part of a batch, and the ranks average them.
#include "teach.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/msstream.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

namespace ms = msstream;
using R = ms::Host;  // the runtime on which ranks may be threads

namespace {

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kWidth = 4;
constexpr int kSteps = 200;

/// Rows of a batch, with labels that depend on their numbers.
struct Rows {
  ms::Tensor<float, R> numbers;
  ms::Tensor<float, R> labels;
};

/// Makes the rows of a rank: a part of the batch, which is the same for any number of ranks.
Rows rows_of(ms::Device<R> const& device, ms::comm::World const& world) {
  std::mt19937 engine(7);
  std::vector<float> numbers;
  std::vector<float> labels;
  for (std::int64_t row = 0; row < kBatch; ++row) {
    float sum = 0;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      numbers.push_back(static_cast<float>(engine() % 1000) / 500.0F - 1.0F);
      sum += numbers.back();
    }
    labels.push_back(sum > 0 ? 1.0F : 0.0F);
  }
  auto const part = kBatch / world.size();
  auto const begin = part * world.rank();
  return {ms::to_device(device, numbers, {kBatch, kWidth}).rows(begin, begin + part),
          ms::to_device(device, labels, {kBatch, 1}).rows(begin, begin + part)};
}

/// Trains on this rank's rows, and returns the weights, which are equal on all ranks.
std::vector<float> train(ms::comm::World const& world) {
  ms::Device<R> const device;
  ms::comm::Communicator<R> const ranks(device, world);
  auto const rows = rows_of(device, world);
  ms::Parameters<R> parameters(device);
  auto const weight = parameters.dense("weight", {kWidth, 1}, ms::init::normal());
  ms::comm::broadcast(ranks, weight);  // all ranks begin with the weights of rank 0

  ms::Optimizer<R> optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.5F});
  optimizer.add(parameters);
  ms::GradientTape<R> tape(device);
  for (int step = 0; step < kSteps; ++step) {
    auto const logits = ms::ops::matmul(tape, rows.numbers, weight);
    tape.backward(ms::ops::mean_bce_with_logits(tape, logits, rows.labels));
    ms::comm::all_reduce(ranks, tape.gradient(weight), ms::comm::Reduction::mean);
    optimizer.step(tape);  // waits, on the device, for the averaged gradient
    tape.clear();
  }
  return ms::to_host(weight);
}

void compare() {
  auto const alone = train(ms::comm::World());
  ms::comm::run_as_threads(4, [&](ms::comm::World const& world) {
    auto const together = train(world);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      teach::expect(std::abs(together[i] - alone[i]) <= 1e-4F * (1 + std::abs(alone[i])),
                    "the weights of " + to_string(world));
    }
  });
  std::cout << "four ranks have trained the weights of one:";
  for (auto const value : alone) {
    std::cout << ' ' << value;
  }
  std::cout << '\n';
}

}  // namespace

int main() {
  return teach::run(compare);
}
