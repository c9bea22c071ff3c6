// SPDX-License-Identifier: Apache-2.0
#include "data/loaded.hpp"
#include "ops/ops_fixture.hpp"
#include "runtime/gate.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

namespace msstream::data {
namespace {

using metrics::LogLoss;
using testing::expect_refused;
using testing::Floats;
using testing::Integers;
using testing::OpsTest;
using testing::RuntimeNames;
using testing::Runtimes;

template <class T>
std::vector<T> copied(std::span<T const> values) {
  return {values.begin(), values.end()};
}

template <class R>
using DeviceLoaderTest = OpsTest<R>;
TYPED_TEST_SUITE(DeviceLoaderTest, Runtimes, RuntimeNames);

TYPED_TEST(DeviceLoaderTest, gives_the_batches_of_a_loader_in_host_memory) {
  StreamPool pool(this->device(), {.groups = 2});
  for (auto const last : {LastBatch::partial, LastBatch::padded}) {
    LoaderOptions const options{
        .batch_size = 33, .epochs = 2, .shuffle_rows = 64, .last_batch = last, .threads = 3};
    CountingReader host_reader(200);
    CountingReader device_reader(200);
    Loader on_host(host_reader, options);
    DeviceLoader on_device(this->device(), pool[1], device_reader, options);
    EXPECT_EQ(on_device.schema(), on_host.schema());
    while (auto const expected = on_host.next()) {
      auto const found = on_device.next();
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rows(), expected->rows());
      EXPECT_EQ(found->shape_rows(), expected->shape_rows());
      EXPECT_EQ(found->index(), expected->index());
      EXPECT_EQ(found->epoch(), expected->epoch());
      EXPECT_EQ(found->first_sample(), expected->first_sample());
      EXPECT_EQ(found->floats("pair").shape(), Shape({expected->shape_rows(), 2}));
      EXPECT_EQ(found->ints("id").shape(), Shape({expected->shape_rows()}));
      EXPECT_EQ(to_host(found->floats("pair")), copied(expected->floats("pair")));
      EXPECT_EQ(to_host(found->ints("id")), copied(expected->ints("id")));
      EXPECT_EQ(to_host(found->ints("bag")), copied(expected->ints("bag")));
      EXPECT_EQ(to_host(found->offsets("bag")), copied(expected->offsets("bag")));
      EXPECT_EQ(to_host(found->mask()), copied(expected->mask()));
      EXPECT_EQ(on_device.position(), on_host.position());
    }
    EXPECT_FALSE(on_device.next());
  }
}

/// A reader whose columns show the layout of ids and of labels.
class TwoTables final : public Reader {
 public:
  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    if (read_) {
      return false;
    }
    read_ = true;
    chunk.ints("a") = {1, 2, 3};
    chunk.floats("label") = {0, 1, 0};
    chunk.ints("b") = {10, 11, 20, 21, 30, 31};
    chunk.ints("bag") = {7};
    chunk.offsets("bag") = {0, 0, 1, 1};
    chunk.floats("bought") = {1, 0, 1};
    chunk.floats("pair") = {0.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F};
    chunk.floats("prices") = {9};
    chunk.offsets("prices") = {0, 1, 1, 1};
    return true;
  }
  [[nodiscard]] Position position() const override { return {.offset = read_ ? 1 : 0}; }
  void seek(Position const& position) override { read_ = position.offset != 0; }

 private:
  Schema schema_{{{"a", ColumnType::hashed},
                  {"label"},
                  {"b", ColumnType::hashed, 2},
                  {"bag", ColumnType::int64, kJagged},
                  {"bought"},
                  {"pair", ColumnType::float32, 2},
                  {"prices", ColumnType::float32, kJagged}}};
  bool read_ = false;
};

TYPED_TEST(DeviceLoaderTest, ids_of_many_columns_are_stored_table_by_table) {
  StreamPool pool(this->device(), {.groups = 1});
  TwoTables reader;
  DeviceLoader loader(this->device(), pool[0], reader, {.batch_size = 3});
  auto const batch = loader.next().value();
  EXPECT_EQ(to_host(batch.ints("a", "b")), (Integers{1, 2, 3, 10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(to_host(batch.ints("b", "b")), (Integers{10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(batch.ints("b").shape(), Shape({3, 2}));
  EXPECT_EQ(to_host(batch.floats("label")), (Floats{0, 1, 0}));
  expect_refused([&] { static_cast<void>(batch.ints("b", "a")); }, "'b' is behind column 'a'");
  expect_refused([&] { static_cast<void>(batch.ints("a", "bag")); }, "'bag' is jagged");
  expect_refused([&] { static_cast<void>(batch.floats("a")); }, "'a'", "hashed", "floats");
  expect_refused([&] { static_cast<void>(batch.ints("c")); }, "no column 'c'");
}

TYPED_TEST(DeviceLoaderTest, floats_of_many_columns_are_one_tensor) {
  StreamPool pool(this->device(), {.groups = 1});
  TwoTables reader;
  // Zeros follow the three rows in each column.
  DeviceLoader loader(
      this->device(), pool[0], reader, {.batch_size = 4, .last_batch = LastBatch::padded});
  auto const batch = loader.next().value();
  EXPECT_EQ(to_host(batch.floats("label", "bought")), (Floats{0, 1, 0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(to_host(batch.floats("bought", "pair")),
            (Floats{1, 0, 1, 0, 0.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F, 0, 0}));
  EXPECT_EQ(to_host(batch.floats("label", "label")), (Floats{0, 1, 0, 0}));
  expect_refused([&] { static_cast<void>(batch.floats("bought", "label")); },
                 "'bought' is behind column 'label'");
  expect_refused([&] { static_cast<void>(batch.floats("pair", "prices")); }, "'prices' is jagged");
  expect_refused([&] { static_cast<void>(batch.floats("label", "b")); }, "'b'", "floats");
  expect_refused([&] { static_cast<void>(batch.floats("label", "c")); }, "no column 'c'");

  TwoTables host_reader;
  Loader host_loader(host_reader, {.batch_size = 4, .last_batch = LastBatch::padded});
  auto const host = host_loader.next().value();
  for (auto const* last : {"bought", "pair"}) {
    EXPECT_EQ(to_host(batch.floats("label", last)), copied(host.floats("label", last)));
  }
  EXPECT_EQ(to_host(batch.ints("a", "b")), copied(host.ints("a", "b")));
  expect_refused([&] { static_cast<void>(host.floats("pair", "prices")); }, "'prices' is jagged");
  expect_refused([&] { static_cast<void>(host.ints("a", "bag")); }, "'bag' is jagged");
}

TYPED_TEST(DeviceLoaderTest, rows_that_fill_up_a_batch_move_no_row_of_a_table) {
  // Updates of Adam move each row that was looked up, also by a gradient of 0.
  std::vector<Floats> tables;
  for (auto const last : {LastBatch::partial, LastBatch::padded}) {
    CountingReader reader(10);
    DeviceLoader loader(this->device(),
                        this->device().default_group(),
                        reader,
                        {.batch_size = 8, .epochs = 3, .last_batch = last});
    Parameters<TypeParam> parameters(this->device(), {.seed = 1});
    auto const table = parameters.table("table", {10, 2}, init::normal());
    Optimizer optimizer(this->device(), {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F});
    optimizer.add(parameters);
    GradientTape tape(this->device());
    while (auto const batch = loader.next()) {
      auto const rows = ops::gather_rows(tape, table, batch->ints("id"));
      tape.backward(
          ops::mse_loss(tape,
                        rows,
                        batch->floats("pair"),
                        {.weight = batch->mask(), .reduction = ops::LossReduction::weighted_mean}));
      optimizer.step(tape);
      tape.clear();
    }
    tables.push_back(to_host(table));
  }
  EXPECT_EQ(tables[0], tables[1]);
}

TYPED_TEST(DeviceLoaderTest, a_mask_leaves_the_zeros_out_of_a_captured_step) {
  StreamPool pool(this->device(), {.groups = 1});
  TwoTables reader;
  DeviceLoader loader(
      this->device(), pool[0], reader, {.batch_size = 4, .last_batch = LastBatch::padded});
  auto const batch = loader.next().value();
  auto const scores = batch.floats("bought");
  auto const labels = batch.floats("label");
  LogLoss const masked(this->device());
  LogLoss const whole(this->device());
  LogLoss const expected(this->device());
  CapturedStep<TypeParam> step(this->device(), [&] {
    masked.update({.scores = scores, .labels = labels, .weights = batch.mask()});
    whole.update({.scores = scores, .labels = labels});
  });
  step.replay();
  expected.update({.scores = scores.rows(0, 3), .labels = labels.rows(0, 3)});
  EXPECT_EQ(masked.value(), expected.value());
  EXPECT_NE(whole.value(), expected.value());
}

TYPED_TEST(DeviceLoaderTest, what_a_reader_throws_comes_in_the_place_of_its_batch) {
  StreamPool pool(this->device(), {.groups = 1});
  CountingReader reader(100, 1, [](std::int64_t row) {
    if (row == 50) {
      throw std::runtime_error("row 50 is broken");
    }
  });
  DeviceLoader loader(this->device(), pool[0], reader, {.batch_size = 10});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(loader.next());
  }
  EXPECT_THROW(static_cast<void>(loader.next()), std::runtime_error);
  EXPECT_THROW(static_cast<void>(loader.next()), std::runtime_error);
  EXPECT_EQ(loader.position().batches, 5);
}

TYPED_TEST(DeviceLoaderTest, batches_that_are_kept_stay_as_they_are) {
  StreamPool pool(this->device(), {.groups = 1});
  CountingReader reader(500);
  std::vector<DeviceBatch<TypeParam>> kept;
  {
    DeviceLoader loader(this->device(), pool[0], reader, {.batch_size = 20, .threads = 4});
    while (auto batch = loader.next()) {
      kept.push_back(std::move(*batch));
    }
  }
  ASSERT_EQ(kept.size(), 25U);
  std::int64_t id = 0;
  for (auto const& batch : kept) {
    for (auto const found : to_host(batch.ints("id"))) {
      EXPECT_EQ(found, id++);
    }
  }
}

/// Gates that a runtime opens, and what it saw.
struct WaitWatch {
  testing::Gate* opened = nullptr;
  bool on = false;
  int waits = 0;
};

/// A runtime that counts how often the host waits for an event, and opens a gate then.
class WatchedWaits : public Host {
 public:
  struct Options {
    WaitWatch* watch;
  };
  explicit WatchedWaits(Options options) : watch_(*options.watch) {}

  void synchronize(native_event event) {
    if (watch_.on) {
      ++watch_.waits;
      watch_.opened->open();
    }
    Host::synchronize(event);
  }

 private:
  WaitWatch& watch_;
};

TEST(DeviceLoader, a_loop_that_reads_no_results_waits_for_an_earlier_batch) {
  for (int const unfinished : {1, 2, 4}) {
    WaitWatch watch;
    Device<WatchedWaits> const device({.runtime = {&watch}});
    StreamPool<WatchedWaits> pool(device, {.groups = 1});
    StreamScope const scope(pool[0]);
    testing::Gate first;
    testing::Gate second;
    watch.opened = &first;
    CountingReader reader(1'000);
    DeviceLoader<WatchedWaits> loader(
        device, pool[0], reader, {.batch_size = 10, .unfinished_batches = unfinished});
    // The queue of the compute stream is [wait for the first gate, sum of batch 0, sum of batch 1,
    // wait for the second gate, sum of batch 2, …].
    // No memory is freed, which copies to its next owner would wait for.
    std::vector<DeviceBatch<WatchedWaits>> given;
    std::vector<Tensor<float, WatchedWaits>> sums;
    first.hold(pool[0].compute());
    for (int batch = 0; batch <= unfinished + 1; ++batch) {
      EXPECT_EQ(watch.waits, 0) << "before batch " << batch;
      pool[0].h2d().synchronize();  // so that next() need not wait for copies
      watch.on = true;
      given.push_back(loader.next().value());
      watch.on = false;
      sums.push_back(ops::sum(given.back().floats("pair")));
      if (batch == 1) {
        second.hold(pool[0].compute());
      }
    }
    // The wait was for batch 0 alone: the second gate is closed.
    EXPECT_EQ(watch.waits, 1);
  }
}

}  // namespace
}  // namespace msstream::data
