// SPDX-License-Identifier: Apache-2.0
// Operations without a tape and with one: bags of ids that are looked up in a table, rows of it
// that are updated, segments, bad ids and offsets, many tables at once, random numbers.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace ms = msstream;

namespace {

ms::Tensor<std::int64_t> integers(ms::Device<> const& device,
                                  std::vector<std::int64_t> const& values) {
  return ms::to_device(device, values, {static_cast<std::int64_t>(values.size())});
}

void lookups_and_segments(ms::Device<> const& device) {
  constexpr std::int64_t kRows = 100;
  auto const table = ms::ops::random_normal(device, {kRows, 4}, {1, "table"});
  auto const ids = integers(device, {7, 8, 7, 9});
  auto const offsets = integers(device, {0, 3, 3, 4});  // bags of three ids, of none, and of one
  auto const weights = ms::to_device(device, std::vector<float>{1, 1, 0.5F, 2}, {4});

  ms::ops::Bags<> bags(ids, offsets);  // int32 or int64; or ids alone, [bags] or [bags, hotness]
  bags.weights = weights;              // a factor for each id's row
  bags.default_id = 0;                 // the id of a bag that has no valid id
  auto const pooled =
      ms::ops::embedding_lookup<ms::float16>(table, bags, {.pooling = ms::ops::Pooling::mean});

  ms::ops::OptimizerRule const rule{.kind = ms::ops::OptimizerKind::adagrad, .learning_rate = 0.1F};
  auto const state = ms::ops::make_state(device, rule.kind, table.shape());
  auto const gradient = ms::ops::random_normal(device, {3, 4}, {1, "gradient"});
  auto const before = ms::to_host(table);

  auto const unique = ms::ops::deduplicate(bags, kRows);  // the count stays on the device
  ms::ops::StepCounter step(device);
  step.advance(rule);
  ms::ops::update_embedding(
      rule, step, table, state, bags, unique, ms::ops::Pooling::mean, gradient);

  auto const after = ms::to_host(table);
  teach::expect(pooled.shape() == ms::Shape{3, 4}, "a row for each bag");
  teach::expect(ms::to_host(unique.count)[0] == 4, "the ids 0, 7, 8 and 9");
  teach::expect(after[28] != before[28] && after[24] == before[24], "their rows move");

  auto const values = ms::to_device(device, std::vector<float>{1, 2, 3, 4}, {4, 1});
  auto const user_ids = integers(device, {5, 5, 30, 999});
  auto const sums = ms::ops::segment_reduce(values, offsets, ms::ops::SegmentReduction::sum);
  // Rows by 1000 ids, which are sorted here and may be unsorted.
  ms::ops::Segments const users(user_ids, 1000, ms::ops::SegmentIds::sorted);
  auto const largest = ms::ops::segment_reduce(values, users, ms::ops::SegmentReduction::max);
  teach::expect(ms::to_host(sums) == std::vector<float>{6, 0, 4}, "sums by offsets");
  teach::expect(ms::to_host(largest)[5] == 2, "the largest value of user 5");
}

void bad_ids_and_offsets(ms::Device<> const& device) {
  auto const table = ms::zeros<float>(device, {100, 4});
  auto const values = ms::zeros<float>(device, {5, 2});
  auto const offsets = integers(device, {0, 4, 2, 5});
  ms::ops::Bags<> const bags(integers(device, {7, 100}));

  auto const bad = ms::zeros<std::int64_t>(device, ms::Shape{});
  auto const pooled =
      ms::ops::embedding_lookup(table, bags, {.out_of_range = ms::ops::OutOfRange::trap});
  auto const dense =
      ms::ops::jagged_to_dense(values, offsets, 20, 0.0F, {ms::ops::OutOfRange::count, bad});

  bool is_reported = false;
  try {
    (void)ms::to_host(pooled);
  } catch (std::out_of_range const&) {
    is_reported = true;
  }
  teach::expect(is_reported, "the id 100 is not in the table");
  teach::expect(ms::to_host(bad)[0] == 2, "the first and the second sample have bad offsets");
  teach::expect(dense.shape() == ms::Shape{3, 20, 2}, "a row for each sample");
}

void many_tables(ms::Device<> const& device) {
  constexpr std::int64_t kBatch = 2;
  ms::Parameters parameters(device, {.seed = 1});
  ms::ops::EmbeddingTables<> const tables(
      device,
      {{.weights = parameters.table("users", {50, 8})},
       {.weights = parameters.table("items", {100, 16}), .hotness = 3}});
  ms::Optimizer optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.1F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);
  auto const ids = integers(device, {1, 2, 3, 4, 5, 6, 7, 8});  // 2 of users, 2 * 3 of items

  auto const pooled = ms::ops::embedding_lookup(
      tape, tables, ms::ops::TableBags<>{.ids = ids, .batch = kBatch});  // [batch, tables.width()]
  tape.backward(ms::ops::mean(tape, ms::ops::multiply(tape, pooled, pooled)));
  optimizer.step(tape);  // one launch for all tables
  teach::expect(pooled.shape() == ms::Shape{kBatch, 8 + 16}, "the columns of both tables");
}

void random_numbers(ms::Device<> const& device) {
  ms::GradientTape tape(device);
  struct {
    std::int64_t begin = 32;
  } const part;  // of a batch

  auto const w = ms::ops::random_normal(device, {512, 256}, {42, "top/weight"}, 0.0F, 0.05F);
  ms::RandomGenerator random(device, {.seed = 7});
  random.advance();  // once a step
  auto h = ms::ops::matmul(ms::ops::random_uniform(device, {32, 512}, {42, "x"}), w);
  h = ms::ops::dropout(tape, h, {.rate = 0.1F, .first_sample = part.begin}, random, "top/dropout");

  auto const values = ms::to_host(h);
  auto const zeros = std::count(values.begin(), values.end(), 0.0F);
  teach::expect(zeros > 500 && zeros < 1200, "a tenth of the 8,192 elements is dropped");
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    lookups_and_segments(device);
    bad_ids_and_offsets(device);
    many_tables(device);
    random_numbers(device);
  });
}
