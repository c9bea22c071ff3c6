// SPDX-License-Identifier: Apache-2.0
// The msstream side of docs/coming-from-pytorch.md: each part is compiled, and runs.
#include "teach.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/ndcg.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/tensorboard.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable/random.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/parameter_averages.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace ms = msstream;

namespace {

void parameters(ms::Device<> const& device) {
  ms::Parameters params(device, {.seed = 42});
  auto const weight = params.dense("fc/weight", {13, 64}, ms::init::he_normal());
  auto const bias = params.dense("fc/bias", {64}, ms::init::zeros());
  auto const table = params.table("users", {10'000, 16}, ms::init::normal(0.0F, 0.01F));
  ms::DenseStack const mlp(params, "mlp", 13, {64, 32, 1});

  for (auto const& entry : params.entries()) {
    teach::expect(!entry.name.empty() && entry.shape.count() > 0, "a parameter");
  }
  params.freeze("mlp/*");
  params.unfreeze("mlp/0/*");
  teach::expect(params.count() == 13 * 64 + 64 + 160'000 + 13 * 64 + 64 + 64 * 32 + 32 + 32 + 1,
                "the number of elements");
}

void step(ms::Device<> const& device) {
  ms::Parameters params(device);
  ms::DenseStack const model(params, "model", 4, {8, 1});
  auto const x = ms::ops::random_normal(device, {32, 4}, {1, "x"});
  auto const y = ms::zeros<float>(device, {32, 1});

  ms::Optimizer optimizer(device, {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 1e-3F});
  optimizer.add(params);
  ms::GradientTape tape(device);
  for (int i = 0; i < 3; ++i) {
    auto const loss = ms::ops::mean_bce_with_logits(tape, model(tape, x), y);
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
  }

  auto const scores = ms::ops::sigmoid(model(ms::no_tape, x));
  teach::expect(ms::to_host(scores).size() == 32, "a score for each row");
}

void losses(ms::Device<> const& device) {
  ms::GradientTape tape(device);
  ms::Parameters params(device);
  auto const x = params.dense("x", {4, 1}, ms::init::normal());
  auto const y = ms::zeros<float>(device, {4, 1});
  auto const negatives = params.dense("negatives", {4, 3}, ms::init::normal());
  auto const logits = params.dense("logits", {2, 5}, ms::init::normal());
  auto const classes = ms::to_device(device, std::vector<std::int64_t>{3, -100}, {2});
  auto const w = ms::zeros<float>(device, {4, 1});
  auto const row_weight = ms::to_device(device, std::vector<float>{0.5F, 2.0F}, {2});
  auto const scores = params.dense("scores", {3, 3}, ms::init::normal());
  auto const ids = ms::to_device(device, std::vector<std::int64_t>{7, 8, 7}, {3});

  auto const weighed = ms::ops::mean_bce_with_logits(tape, x, y, {.weight = w, .pos_weight = 2.0F});
  auto const squared = ms::ops::mse_loss(tape, x, y);
  auto const pairs = ms::ops::bpr_loss(tape, x, negatives);
  auto const ranking = ms::ops::margin_ranking_loss(tape, x, negatives, 0.5F);
  auto const smoothed = ms::ops::mean_softmax_cross_entropy(
      tape, logits, classes, {.ignore_index = -100, .label_smoothing = 0.1F});
  auto const per_row =
      ms::ops::mean_softmax_cross_entropy(tape,
                                          logits,
                                          classes,
                                          {.ignore_index = -100,
                                           .sample_weight = row_weight,
                                           .reduction = ms::ops::LossReduction::weighted_mean});
  auto const in_batch = ms::ops::mean_softmax_cross_entropy(
      tape, scores, ms::arange(device, 3), {.candidate_ids = ids});
  auto const all = ms::ops::add(
      tape, std::vector{weighed, squared, pairs, ranking, smoothed, per_row, in_batch});
  teach::expect(ms::to_host(weighed)[0] == 0.0F && ms::to_host(all)[0] > 0.0F, "losses");
}

void training(ms::Device<> const& device) {
  auto const path = std::filesystem::temp_directory_path() / "from_pytorch_training.safetensors";
  ms::Parameters params(device, {.seed = 1});
  ms::RandomGenerator random(device, {.seed = 7});
  ms::DenseStack const model(
      params, "model", 4, {8, 1}, {.batch_norm = true, .dropout = 0.1F, .random = random});
  auto const x = ms::ops::random_normal(device, {32, 4}, {1, "x"});
  auto const y = ms::zeros<float>(device, {32, 1});

  ms::Optimizer optimizer(
      device,
      {.kind = ms::ops::OptimizerKind::adamw, .learning_rate = 1e-3F, .weight_decay = 0.01F},
      {.schedule = ms::Schedule::cosine({.steps = 100, .warmup = {.steps = 10}}),
       .clip_norm = 1.0F,
       .micro_batches = 2});
  optimizer.add(params, "*/bias", {.weight_decay = 0.0F});
  optimizer.add(params);
  ms::ParameterAverages<> averages(0.999F);
  averages.add("weight", params.find("model/1/weight"));
  ms::GradientTape tape(device);
  for (int i = 0; i < 4; ++i) {
    tape.backward(ms::ops::mean_bce_with_logits(tape, model(tape, x), y));
    random.advance();
    if (optimizer.step(tape)) {  // every second time
      averages.update();
      tape.clear();
    }
  }
  {
    auto const swapped = averages.swap_in();
    teach::expect(ms::to_host(model(ms::no_tape, x)).size() == 32, "scores by the averages");
  }
  optimizer.set_learning_rate(1e-4F);
  ms::checkpoint::save(path, ms::checkpoint::Tensors(params, optimizer, random), {.step = 2});
  ms::checkpoint::load(path, ms::checkpoint::Tensors(params, optimizer, random));
  teach::expect(optimizer.status().steps == 2, "two updates of two batches each");
  std::filesystem::remove(path);
}

void loader(ms::Device<> const& device) {
  auto const path = std::filesystem::temp_directory_path() / "from_pytorch.csv";
  std::ofstream(path) << "label,age,user,items\n1,31,7,1|2\n0,45,8,3\n";
  ms::StreamPool pool(device, {.groups = 1});

  using enum ms::data::ColumnType;
  auto const reader = std::make_shared<ms::data::CsvReader>(
      ms::data::TextFile(path),
      ms::data::TextOptions{.columns = {{.name = "label"},
                                        {.name = "age"},
                                        {.name = "user", .type = int64},
                                        {.name = "items", .type = int64, .value_separator = '|'}}});
  ms::data::DeviceLoader rows(device, pool[0], reader, {.batch_size = 256, .shuffle_rows = 10'000});
  while (auto const batch = rows.next()) {
    auto const age = batch->floats("age");
    auto const users = ms::ops::Bags<>(batch->ints("user"));
    auto const items = ms::ops::Bags<>(batch->ints("items"), batch->offsets("items"));
    auto const keyed = ms::ops::joined_bags({users, items});
    teach::expect(age.count() == 2 && keyed.batch == 2, "both rows");
  }
  std::filesystem::remove(path);
}

void rows_of_files(ms::Device<> const& device) {
  using ms::data::PartReader;
  using ms::data::Transform;
  auto const path = std::filesystem::temp_directory_path() / "from_pytorch_rows.csv";
  std::ofstream(path) << "age,income,time,user,items,bought\n31,9,0,u,a|b,b\n45,5,1,v,c,a\n";
  using enum ms::data::ColumnType;
  ms::data::TextOptions const options{
      .columns = {{.name = "age", .transforms = {Transform::bucketize({18, 65})}},
                  {.name = "income", .transforms = {Transform::quantiles(10)}},
                  {.name = "hour", .fields = {"time"}, .transforms = {Transform::hour_of_day()}},
                  {.name = "day", .fields = {"time"}, .transforms = {Transform::day_of_week()}},
                  {.name = "user", .type = hashed, .transforms = {Transform::vocabulary()}},
                  {.name = "items",
                   .type = hashed,
                   .value_separator = '|',
                   .transforms = {Transform::last(50), Transform::vocabulary({.name = "items"})}},
                  {.name = "bought",
                   .type = hashed,
                   .transforms = {Transform::vocabulary({.name = "items"})}}},
      .max_bad_rows = 100};
  auto const open = [&] { return std::make_shared<ms::data::CsvReader>(path, options); };

  auto const training = PartReader(open(), {.end = 0.9, .seed = 1});
  auto const evaluation = PartReader(open(), {.begin = 0.9, .seed = 1});
  PartReader const of_users(open(), {.end = 0.9, .seed = 1, .key = "user"});
  ms::data::Transforms const transforms(training.schema());
  auto const reader = open();
  transforms.fit(*reader);
  teach::expect(reader->bad_rows().count == 0 && transforms.id_count("age") == 3, "two rows");
  ms::data::DeviceLoader rows(device,
                              device.default_group(),
                              reader,
                              {.batch_size = 1, .rank = 1, .ranks = 2, .transforms = transforms});
  teach::expect(rows.next()->rows() == 1, "a row of each rank");
  std::filesystem::remove(path);
}

void tables(ms::Device<> const& device) {
  ms::GradientTape tape(device);
  ms::Parameters params(device);
  auto const table = params.table("items", {100, 8});
  auto const ids = ms::to_device(device, std::vector<std::int64_t>{1, 2, 3, 5}, {4});
  auto const offsets = ms::to_device(device, std::vector<std::int64_t>{0, 3, 4}, {3});

  auto const wanted = ms::ops::gather_rows(tape, table, ids.rows(0, 2));

  auto const rows = ms::ops::gather_rows(tape, table, ids);
  auto const bags = ms::ops::embedding_lookup(
      tape, table, ms::ops::Bags<>(ids, offsets), {.pooling = ms::ops::Pooling::mean});
  auto const padded = ms::ops::jagged_to_dense(tape, rows, offsets, 3);
  auto const beside = ms::ops::repeat_rows(tape, wanted, offsets, ids.count());
  auto const of_rows = ms::ops::segment_ids(offsets, ids.count());
  teach::expect(beside.shape() == rows.shape(), "a row for each id");
  teach::expect(ms::to_host(of_rows) == std::vector<std::int64_t>{0, 0, 0, 1}, "bags of the ids");
  teach::expect(padded.shape() == ms::Shape{2, 3, 8} && bags.shape() == ms::Shape{2, 8}, "shapes");

  ms::ops::EmbeddingTables<> const tables(
      device, {{.weights = table}, {.weights = params.table("users", {50, 16}), .hotness = 3}});
  auto const all_ids = ms::to_device(device, std::vector<std::int64_t>(8, 1), {8});
  auto const pooled = ms::ops::embedding_lookup(tape, tables, ms::ops::TableBags<>{all_ids, 2});
  auto const keyed = ms::ops::joined_bags(
      {ms::ops::Bags<>(ids, offsets), ms::ops::Bags<>(all_ids.reshaped({2, 4}))});
  auto const of_columns = ms::ops::embedding_lookup(tape, tables, keyed);
  teach::expect(of_columns.shape() == pooled.shape(), "the columns of both tables");
  teach::expect(pooled.shape() == ms::Shape{2, 24}, "the columns of both tables");
}

void tables_with_their_own_optimizer(ms::Device<> const& device) {
  using enum ms::ops::OptimizerKind;
  ms::GradientTape tape(device);
  ms::Parameters params(device);
  ms::ops::EmbeddingTables<> const tables(
      device, {{.weights = params.table<ms::float16>("table/items", {100, 8}), .hotness = 3}});
  ms::DenseStack const over(params, "over", 8, {1});
  auto const ids = ms::to_device(device, std::vector<std::int64_t>{1, 2, 3, 3, 2, 2}, {6});
  auto const y = ms::zeros<float>(device, {2, 1});

  ms::Optimizer of_tables(device, {.kind = rowwise_adagrad, .learning_rate = 0.02F});
  of_tables.add(params, "table/*", {});
  ms::Optimizer of_layers(device, {.kind = adam, .learning_rate = 1e-3F});
  of_layers.add(params, "over/*", {});
  auto const pooled = ms::ops::embedding_lookup(tape, tables, ms::ops::TableBags<>{ids, 2});
  tape.backward(ms::ops::mse_loss(tape, over(tape, pooled), y));
  of_tables.step(tape);
  of_layers.step(tape);
  teach::expect(of_tables.status().steps == 1 && of_layers.status().steps == 1, "a step of each");
}

void layers(ms::Device<> const& device) {
  ms::GradientTape tape(device);
  ms::Parameters params(device);
  ms::RandomGenerator random(device, {.seed = 7});
  auto const x = params.dense("x", {4, 8}, ms::init::normal());
  auto const weight = params.dense("weight", {8}, ms::init::ones());
  auto const bias = params.dense("bias", {8}, ms::init::zeros());
  auto const table = params.table("table", {100, 8});
  ms::ops::RunningStatistics<> const running{params.buffer("mean", {8}),
                                             params.buffer("var", {8}, ms::init::ones())};

  auto const dropped = ms::ops::dropout(tape, x, {.rate = 0.1F}, random, "dropout");
  random.advance();  // once a step
  auto const normed = ms::ops::batch_norm(tape, x, weight, bias, running);
  auto const unit = ms::ops::l2_normalize(tape, x);
  auto const activated = ms::ops::gelu(tape, ms::ops::silu(tape, ms::ops::tanh(tape, x)));
  auto const drawn = ms::ops::random_integers(tape, random, "negatives", {4, 3}, 0, 100);
  auto const others = ms::ops::gather_rows(tape, table, drawn);  // [4, 3, 8]
  auto const both = ms::ops::concat(tape, std::vector{dropped, normed, unit, activated});
  teach::expect(both.shape() == ms::Shape{4, 32}, "four times eight columns");
  teach::expect(others.shape() == ms::Shape{4, 3, 8}, "three rows for each of four samples");
}

void other_operations(ms::Device<> const& device) {
  namespace ops = ms::ops;
  ms::GradientTape tape(device);
  ms::Parameters params(device);
  auto const x = params.dense("x", {4, 8}, ms::init::normal());
  auto const weight = params.dense("weight", {8}, ms::init::ones());
  auto const bias = params.dense("bias", {8}, ms::init::zeros());
  auto const slopes = params.dense("slopes", {8}, ms::init::constant(0.25F));
  auto const q = params.dense("q", {2, 3, 8}, ms::init::normal());
  auto const k = params.dense("k", {2, 5, 8}, ms::init::normal());
  auto const v = params.dense("v", {2, 5, 8}, ms::init::normal());
  auto const embeddings = params.dense("embeddings", {4, 24}, ms::init::normal());
  auto const dense = params.dense("dense", {4, 8}, ms::init::normal());
  auto const ids = ms::to_device(device, std::vector<std::int64_t>{1, 2, 2, 9}, {4});
  auto const offsets = ms::to_device(device, std::vector<std::int64_t>{0, 3, 4}, {3});

  teach::expect(ops::layer_norm(tape, x, weight, bias).shape() == x.shape(), "layer_norm");
  teach::expect(ops::attention(tape, q, k, v).shape() == q.shape(), "attention");
  auto const bent = ops::clamp(tape, ops::prelu(tape, x, slopes), -1, 1);
  auto const clamped = ops::clamp(tape, x, -1, 1);
  auto const moved = ops::add_scalar(tape, ops::scale(tape, x, 2), 1);
  teach::expect(ops::top_k(x, 3).indices.shape() == ms::Shape{4, 3}, "top_k");
  teach::expect(ops::top_k(tape, x, 3).values.shape() == ms::Shape{4, 3}, "top_k");
  auto const of_x = ms::to_host(x);
  auto const added = ops::segment_reduce(tape, x, {ids, 10}, ops::SegmentReduction::sum);
  auto const copied = ops::scatter_rows(tape, x, ids, 10);  // of the rows for id 2, the last one
  teach::expect(added.shape() == ms::Shape{10, 8} && copied.shape() == added.shape(),
                "rows of ids");
  teach::expect(ms::to_host(added)[2 * 8] == of_x[1 * 8] + of_x[2 * 8], "rows of one id are added");
  teach::expect(ms::to_host(copied)[2 * 8] == of_x[2 * 8], "the last row of an id counts");
  teach::expect(ops::jagged_softmax(tape, x, offsets).shape() == x.shape(), "jagged_softmax");
  teach::expect(ops::dot_interaction(tape, dense, embeddings).shape() == ms::Shape{4, 8 + 6},
                "dot_interaction");
  teach::expect(ms::to_host(moved).size() == ms::to_host(bent).size() && clamped.count() == 32,
                "element by element");
}

void around_a_model(ms::Device<> const& device) {
  ms::Parameters params(device);
  auto const weight = params.dense("weight", {2, 1}, ms::init::ones());
  auto const x = ms::to_device(device, std::vector<float>{1, 2}, {1, 2});
  auto product = ms::ops::matmul(x, weight);  // the first step is eager
  ms::CapturedStep captured(device, [&] { product = ms::ops::matmul(x, weight); });
  captured.replay();
  teach::expect(ms::to_host(product)[0] == 3, "a replay");

  auto const folder = std::filesystem::temp_directory_path() / "from_pytorch_board";
  {
    ms::report::TensorBoardWriter board(folder);
    board.scalar("loss", 0.25, 10);
  }
  std::filesystem::remove_all(folder);

  ms::GradientTape tape(device);
  ms::NonFiniteLocator const locator(tape, params);
  ms::comm::World const world;
  ms::comm::Communicator<> const ranks(device, world.split(0));
  ms::DataParallel<> const parallel(params, ranks);
  parallel.backward(tape, ms::ops::mean(tape, ms::ops::matmul(tape, x, weight)));
  locator.require_finite();

  ms::metrics::Ndcg const ndcg(device, {.k = 2, .exponential = false});
  ndcg.update({.scores = ms::to_device(device, std::vector<float>{3, 2, 1}, {3}),
               .labels = ms::to_device(device, std::vector<float>{2, 1, 0}, {3}),
               .offsets = ms::to_device(device, std::vector<std::int64_t>{0, 3}, {2})});
  teach::expect(ndcg.value().value() == 1.0, "the best order");
}

void streams(ms::Device<> const& device) {
  ms::StreamPool pool(device, {.groups = 2});
  auto const x = ms::zeros<float>(device, {4, 8});
  std::vector<ms::Tensor<float>> parts;
  for (int i = 0; i < 2; ++i) {
    ms::StreamScope const branch(pool[i], {.include_grad = true});
    parts.push_back(ms::ops::relu(x));
  }
  auto const sum = ms::ops::add(parts);  // waits for both branches
  teach::expect(ms::to_host(sum)[0] == 0.0F, "a sum of zeros");
}

void metrics_and_files(ms::Device<> const& device) {
  ms::Parameters params(device);
  auto const weight = params.dense("weight", {4, 1});
  auto const path = std::filesystem::temp_directory_path() / "from_pytorch.safetensors";

  ms::checkpoint::save(path, ms::checkpoint::Tensors(params), {.step = 10});
  auto const loaded = ms::checkpoint::load(path, ms::checkpoint::Tensors(params));
  teach::expect(loaded.step == 10, "the step");

  auto const loss = ms::to_device(device, std::vector<float>{0.25F}, {1});
  ms::metrics::Auc const auc(device);
  auc.update(ms::to_device(device, std::vector<float>{-1, 2, 0}, {3}),
             ms::to_device(device, std::vector<float>{0, 1, 0}, {3}));
  teach::expect(auc.value().value() == 1.0, "an AUC of 1");
  ms::metrics::Mean const mean_loss(device, {.name = "loss"});
  mean_loss.update({.scores = loss});
  teach::expect(mean_loss.value().value() == 0.25, "a mean of one loss");
  std::filesystem::remove(path);
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    parameters(device);
    step(device);
    losses(device);
    training(device);
    loader(device);
    rows_of_files(device);
    tables(device);
    tables_with_their_own_optimizer(device);
    layers(device);
    other_operations(device);
    around_a_model(device);
    streams(device);
    metrics_and_files(device);
  });
}
