// SPDX-License-Identifier: Apache-2.0
// Trains on four ranks in two groups, such as those of two hosts: the tables are in parts on the
// ranks of each group, and data parallel between the groups. The ranks are threads, or processes if
// torchrun, mpirun or as_processes.sh starts several of this program.
#include "teach.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace ms = msstream;
using R = ms::Host;

namespace {

constexpr std::int64_t kRows = 64;
constexpr int kRanksOfHost = 2;

std::vector<ms::TableSpec> specs() {
  return {{.name = "users", .rows = 4'000, .width = 8}, {.name = "items", .rows = 900, .width = 8}};
}

void train(ms::comm::World const& world) {
  ms::comm::World const host = world.split(world.rank() / kRanksOfHost);
  ms::comm::World const peers = world.split(world.rank() % kRanksOfHost);  // with the same part
  ms::Device<R> const device;
  ms::comm::Communicator<R> const all(device, world);
  ms::comm::Communicator<R> const inside(device, host, {.name = "inside"});
  ms::comm::Communicator<R> const between(device, peers, {.name = "between"});

  ms::ShardedTables<R> const tables(specs(), inside, {.most_samples = kRows});
  ms::Parameters<R> parameters(device);
  auto const weight = parameters.dense("weight", {tables.width(), 1});
  ms::DataParallel<R> const parallel(parameters, all);
  ms::Optimizer<R> optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 1});
  optimizer.add(parameters);
  tables.add_to(optimizer);

  auto const part = ms::batch_parts(kRows, world.size())[world.rank()];
  std::vector<std::int64_t> ids;
  for (auto const& table : specs()) {
    for (auto row = part.begin; row < part.end; ++row) {
      ids.push_back(row * 31 % table.rows);
    }
  }
  std::vector<float> labels;
  for (auto row = part.begin; row < part.end; ++row) {
    labels.push_back(row % 3 == 0 ? 1.0F : 0.0F);
  }
  ms::ops::TableBags<R> const bags{
      .ids = ms::to_device(device, ids, {static_cast<std::int64_t>(ids.size())}),
      .batch = part.rows()};
  auto const y = ms::to_device(device, labels, {part.rows(), 1});
  ms::GradientTape<R> tape(device);
  float last = 0;
  for (int step = 0; step < 60; ++step) {
    auto const logits = ms::ops::matmul(tape, tables.lookup(tape, bags), weight);
    auto const loss = ms::ops::mean_bce_with_logits(tape, logits, y);
    parallel.backward(tape, loss);
    optimizer.step(tape);
    tape.clear();
    tables.for_each_part([&](std::string const&, auto const& of_table) {
      ms::comm::all_reduce(between, of_table, ms::comm::Reduction::mean);
    });
    last = ms::to_host(loss)[0];
  }
  teach::expect(last < 0.6F, "the loss of " + to_string(host));
  if (world.rank() == 0) {
    std::cout << to_string(host) << ": the loss is " << last << '\n';
  }
}

}  // namespace

int main() {
  return teach::run([] {
    auto const world = ms::comm::World::from_environment();
    world.size() > 1 ? train(world) : ms::comm::run_as_threads(4, train);
  });
}
