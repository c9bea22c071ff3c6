// SPDX-License-Identifier: Apache-2.0
// Trains one model on three ranks, each on its part of the batch: the gradients are averaged, those
// of the table's rows included, though the parts have different numbers of rows. The ranks are
// threads, or processes if torchrun, mpirun or as_processes.sh starts several of this program.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <cstdint>
#include <iomanip>
#include <iostream>
#include <vector>

namespace ms = msstream;
using R = ms::Host;

namespace {

constexpr int kRows = 64;

void train(ms::comm::World const& world) {
  ms::Device<R> const device;
  ms::comm::Communicator<R> const ranks(device, world);
  auto const rows = ms::batch_parts(kRows, world.size())[world.rank()];
  std::vector<float> numbers(kRows);
  std::vector<float> labels(kRows);
  std::vector<std::int64_t> users(kRows);
  for (int row = 0; row < kRows; ++row) {
    numbers[row] = static_cast<float>(row % 16) / 8 - 1;
    labels[row] = row % 16 > 8 ? 1.0F : 0.0F;
    users[row] = row % 5;
  }
  auto const x = ms::to_device(device, numbers, {kRows, 1}).rows(rows.begin, rows.end);
  auto const y = ms::to_device(device, labels, {kRows, 1}).rows(rows.begin, rows.end);
  ms::ops::Bags<R> const ids(ms::to_device(device, users, {kRows, 1}).rows(rows.begin, rows.end));
  auto const samples =
      ms::to_device(device, std::vector<float>{static_cast<float>(rows.rows())}, {1});

  ms::Parameters<R> parameters(device);
  auto const weight = parameters.dense("weight", {1, 1});
  auto const table = parameters.table("users", {1000, 1});
  ms::DataParallel<R> const parallel(parameters, ranks);  // the ranks begin with equal weights
  ms::Optimizer<R> optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 1});
  optimizer.add(parameters);
  ms::GradientTape<R> tape(device);
  for (int step = 0; step < 100; ++step) {
    auto const of_users = ms::ops::embedding_lookup(tape, table, ids);
    auto const logits = ms::ops::add(tape, ms::ops::matmul(tape, x, weight), of_users);
    auto const loss = ms::ops::mean_bce_with_logits(tape, logits, y);
    parallel.backward(tape, parallel.weighted(tape, loss, samples));
    optimizer.step(tape);
    tape.clear();
  }
  auto const trained = ms::to_host(weight)[0];
  teach::expect(trained > 1, "the weight of " + to_string(world));
  if (world.rank() == 0) {
    // Nine digits tell all values of a float apart.
    std::cout << world.size() << " ranks have trained the weight " << std::setprecision(9)
              << trained << '\n';
  }
}

}  // namespace

int main() {
  return teach::run([] {
    auto const world = ms::comm::World::from_environment();
    world.size() > 1 ? train(world) : ms::comm::run_as_threads(3, train);
  });
}
