// SPDX-License-Identifier: Apache-2.0
// Trains embedding tables in parts on four ranks, by a plan that is chosen and printed. The ids of
// the next batch, and those of its rows that this one does not train, are sent meanwhile. Then two
// ranks go on from the checkpoint. The ranks are threads, or processes if torchrun, mpirun or
// as_processes.sh starts several of this program.
#include "teach.hpp"

#include <msstream/checkpoint/sharded.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace ms = msstream;
using R = ms::Host;

namespace {

constexpr std::int64_t kRows = 96;

std::vector<ms::TableSpec> specs() {
  return {{.name = "users", .rows = 40'000, .width = 8},
          {.name = "clicks", .rows = 3'000, .width = 8, .hotness = 4},
          {.name = "views", .rows = 2'500, .width = 8, .hotness = 4},
          {.name = "country", .rows = 50, .width = 8}};
}

/// Returns the ids of the rows [begin, end) in a step: table by table, row by row.
ms::ops::TableBags<R> ids_of(ms::Device<R> const& device, ms::BatchPart part, int step) {
  std::vector<std::int64_t> ids;
  for (auto const& table : specs()) {
    for (auto row = part.begin; row < part.end; ++row) {
      for (std::int64_t i = 0; i < table.hotness; ++i) {
        ids.push_back((row * 31 + i * 7 + step % 3) % table.rows);
      }
    }
  }
  auto const count = static_cast<std::int64_t>(ids.size());
  return {.ids = ms::to_device(device, ids, {count}), .batch = part.rows()};
}

/// Trains from a step to another, and returns the loss of this rank.
float train(ms::comm::World const& world, std::string const& path, int from, int to) {
  ms::Device<R> const device;
  ms::comm::Communicator<R> const ranks(device, world);
  auto const part = ms::batch_parts(kRows, world.size())[world.rank()];

  auto const plan = ms::plan_tables(specs(), world.size(), {.state_bytes_per_row = 4});
  ms::ShardedTables<R> const tables(
      specs(), ranks, {.most_samples = kRows, .sent = ms::SentRows::distinct}, plan);
  ms::Parameters<R> parameters(device);
  auto const weight = parameters.dense("weight", {tables.width(), 1});
  ms::DataParallel<R> const parallel(parameters, ranks);
  ms::Optimizer<R> optimizer(
      device, {.kind = ms::ops::OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F});
  optimizer.add(parameters);
  tables.add_to(optimizer);  // the parts of this rank

  ms::checkpoint::Tensors const others(parameters, optimizer);
  if (from > 0) {
    ms::checkpoint::load_sharded(path, tables, others);
  }
  if (world.rank() == 0) {
    std::cout << describe_plan(specs(), plan, {.state_bytes_per_row = 4}) << '\n';
  }

  std::vector<float> labels;
  for (auto row = part.begin; row < part.end; ++row) {
    labels.push_back(row % 3 == 0 ? 1.0F : 0.0F);
  }
  auto const y = ms::to_device(device, labels, {part.rows(), 1});
  auto const samples =
      ms::to_device(device, std::vector<float>{static_cast<float>(part.rows())}, {1});
  ms::GradientTape<R> tape(device);
  float last = 0;
  auto ids = tables.exchange(ids_of(device, part, from));
  for (int step = from; step < to; ++step) {
    auto const pooled = tables.lookup(tape, ids);  // [rows, tables.width()]
    auto const next = tables.exchange(ids_of(device, part, step + 1));
    ids = tables.prefetch_rows(next, ids);  // both beside what follows
    auto const logits = ms::ops::matmul(tape, pooled, weight);
    auto const loss = ms::ops::mean_bce_with_logits(tape, logits, y);
    parallel.backward(tape, parallel.weighted(tape, loss, samples));
    optimizer.step(tape);
    tape.clear();
    last = ms::to_host(loss)[0];
  }
  ms::checkpoint::save_sharded(path, tables, others, {.step = to});
  return last;
}

}  // namespace

int main() {
  return teach::run([] {
    auto const file = std::filesystem::temp_directory_path() /
                      ("msstream_sharded_tables_" + std::to_string(::getpid()) + ".safetensors");
    auto const world = ms::comm::World::from_environment();
    if (world.size() > 1) {
      teach::expect(train(world, file.string(), 0, 30) < 0.6F, "the loss of " + to_string(world));
    } else {
      ms::comm::run_as_threads(4, [&](ms::comm::World const& rank) {
        teach::expect(train(rank, file.string(), 0, 15) < 0.68F, "the loss on four ranks");
      });
      ms::comm::run_as_threads(2, [&](ms::comm::World const& rank) {
        auto const loss = train(rank, file.string(), 15, 30);
        teach::expect(loss < 0.6F, "the loss on two ranks");
        if (rank.rank() == 0) {
          std::cout << "two ranks went on from the checkpoint of four; the loss is " << loss
                    << '\n';
        }
      });
    }
    std::filesystem::remove(file);
  });
}
