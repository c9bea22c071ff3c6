// SPDX-License-Identifier: Apache-2.0
// From the rows of a file to answers: rows have strings and numbers, some of which are missing. A
// model is trained on a part of them, saved with what the transforms of its columns have learned,
// loaded into new objects, and served. A query has the raw values of a row that was held out, and
// its answer the bits of the row's evaluation.
#include "teach.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/msstream.hpp>
#include <msstream/serve/query_of_rows.hpp>
#include <msstream/step/dense_stack.hpp>

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ms = msstream;
namespace ops = ms::ops;

namespace {

constexpr std::int64_t kBatch = 256;

// The rows to train on, and those that are held out.
ms::data::Part const kTraining{.end = 0.95};
ms::data::Part const kHeldOut{.begin = 0.95};

/// A row as it is in files, and as clients send it.
struct Row {
  float age;     ///< NaN: missing
  float income;  ///< NaN: missing
  std::string country;
  std::string site;
  bool is_click;
};

/// Returns made-up rows. Clicks depend on the age, and on the country.
std::vector<Row> made_up_rows(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Row> rows;
  while (rows.size() < count) {
    bool const has_age = random() % 8 != 0;
    auto const age = static_cast<float>(18 + random() % 60);
    auto const income = random() % 5 == 0 ? NAN : static_cast<float>(random() % 200'000);
    auto const country = random() % 6;
    auto const z = (has_age ? (45 - age) / 12 : 0) + (country < 2 ? 1.5F : -0.5F);
    bool const is_click = static_cast<float>(random() % 1000) / 1000 < 1 / (1 + std::exp(-z));
    rows.push_back({has_age ? age : NAN,
                    income,
                    std::vector<std::string>{"NO", "SE", "DE", "FR", "IT", ""}[country],
                    "site-" + std::to_string(random() % 300),
                    is_click});
  }
  return rows;
}

void write_csv(std::filesystem::path const& path, std::vector<Row> const& rows) {
  std::ofstream file(path);
  auto const number = [](float x) { return std::isnan(x) ? "" : std::to_string(std::lround(x)); };
  file << "label,age,income,country,site\n";
  for (auto const& row : rows) {
    file << row.is_click << ',' << number(row.age) << ',' << number(row.income) << ','
         << row.country << ',' << row.site << '\n';
  }
}

/// The columns that a row has when its label is not known, and what the model gets of them.
ms::data::Schema features() {
  using ms::data::Transform;
  using enum ms::data::ColumnType;
  return ms::data::Schema(
      {{.name = "age", .transforms = {Transform::fill_missing(45), Transform::normalize()}},
       {.name = "income",
        .transforms = {Transform::log1p(), Transform::normalize(), Transform::fill_missing(0)}},
       {.name = "country", .type = hashed, .transforms = {Transform::vocabulary()}},
       {.name = "site", .type = hashed, .transforms = {Transform::hash({.buckets = 100})}}});
}

std::shared_ptr<ms::data::Reader> open_rows(std::filesystem::path const& path,
                                            ms::data::Part const& part) {
  ms::data::TextOptions options{.columns = ms::data::text_columns(features())};
  options.columns.push_back({.name = "label"});
  auto const all = std::make_shared<ms::data::CsvReader>(path, options);
  return std::make_shared<ms::data::PartReader>(all, part);
}

struct Model {
  // A vocabulary's table has a row for each string of the training data, and one for all others.
  Model(ms::Parameters<>& parameters, ms::data::Transforms const& transforms)
      : countries(parameters.table("country", {transforms.id_count("country"), 8})),
        sites(parameters.table("site", {transforms.id_count("site"), 8})),
        layers(parameters, "layers", 8 + 8 + 2, {32, 1}) {}

  // Returns the logits [rows, 1] of a batch, or of the inputs of a served model.
  auto forward(auto& tape, auto const& rows) const {
    auto const age = rows.floats("age");
    ms::Shape const column{age.count(), 1};
    return layers(tape,
                  ops::concat(tape,
                              std::vector{ops::gather_rows(tape, countries, rows.ints("country")),
                                          ops::gather_rows(tape, sites, rows.ints("site")),
                                          age.reshaped(column),
                                          rows.floats("income").reshaped(column)}));
  }
  auto operator()(auto const& rows) const { return forward(ms::no_tape, rows); }

  ms::Tensor<float> countries;
  ms::Tensor<float> sites;
  ms::DenseStack<> layers;
};

/// Trains on a part of the rows of a file, and saves the model. Returns its logits for the other
/// rows.
std::vector<float> train(std::filesystem::path const& folder) {
  ms::Device<> const device;
  auto const group = device.default_group();
  auto const reader = open_rows(folder / "rows.csv", kTraining);
  ms::data::Transforms const transforms(reader->schema());
  transforms.fit(*reader);

  ms::Parameters parameters(device, {.seed = 1});
  Model const model(parameters, transforms);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 1e-2F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);
  ms::data::DeviceLoader batches(device,
                                 group,
                                 reader,
                                 {.batch_size = kBatch,
                                  .epochs = 3,
                                  .shuffle_rows = ms::data::kWholeEpoch,
                                  .transforms = transforms});
  while (auto const batch = batches.next()) {
    tape.backward(ops::mean_bce_with_logits(
        tape, model.forward(tape, *batch), batch->floats("label").reshaped({batch->rows(), 1})));
    optimizer.step(tape);
    tape.clear();
  }
  ms::checkpoint::save(folder / "model.safetensors",
                       ms::checkpoint::Tensors(parameters, transforms));

  ms::metrics::Auc const auc(device);
  std::vector<float> evaluated;
  ms::data::DeviceLoader held_out(
      device,
      group,
      open_rows(folder / "rows.csv", kHeldOut),
      {.batch_size = kBatch, .last_batch = ms::data::LastBatch::dropped, .transforms = transforms});
  while (auto const batch = held_out.next()) {
    auto const logits = model(*batch);
    auc.update(logits, batch->floats("label").reshaped({batch->rows(), 1}));
    auto const values = ms::to_host(logits);
    evaluated.insert(evaluated.end(), values.begin(), values.end());
  }
  std::cout << "held-out AUC " << auc.value().value() << '\n';
  teach::expect(auc.value().value() > 0.75, "a held-out AUC above 0.75");
  return evaluated;
}

/// Makes a server of a checkpoint alone. Returns its logits for rows of raw values.
std::vector<float> serve(std::filesystem::path const& checkpoint, std::vector<Row> const& rows) {
  ms::Device<> const device;
  // The transforms say how many rows the tables have, so they are loaded first.
  ms::data::Transforms const transforms(features());
  ms::checkpoint::load(checkpoint, ms::checkpoint::Tensors(transforms), {.only = {"transforms/*"}});
  ms::Parameters parameters(device);
  auto const model = std::make_shared<Model const>(parameters, transforms);
  ms::checkpoint::load(checkpoint, ms::checkpoint::Tensors(parameters, transforms));
  parameters.freeze("*");

  // With a bucket of the evaluation's batches, products of matrices are rounded as they were there.
  ms::serve::InferencePool pool(
      device, model, {.inputs = ms::serve::fields_of(features()), .buckets = {kBatch}});
  std::vector<float> answers;
  for (auto const& row : rows) {
    ms::data::Chunk raw(features());
    raw.floats("age").push_back(row.age);
    raw.floats("income").push_back(row.income);
    raw.add_text("country", row.country);
    raw.add_text("site", row.site);
    auto const ready = transforms.apply(raw);
    auto answer = pool.submit(ms::serve::query_of(ready, pool.options().inputs));
    answers.push_back(answer.get().values[0]);
  }
  return answers;
}

}  // namespace

int main() {
  return teach::run([] {
    auto const folder =
        std::filesystem::temp_directory_path() / ("msstream-rows-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    auto rows = made_up_rows(21'000, 1);
    std::int64_t first = 0;
    while (!kHeldOut.contains(first)) {
      ++first;
    }
    rows[static_cast<std::size_t>(first)].country = "AQ";  // not in the vocabulary
    write_csv(folder / "rows.csv", rows);

    auto const evaluated = train(folder);
    std::vector<Row> held_out;
    for (std::size_t i = 0; i < rows.size() && held_out.size() < evaluated.size(); ++i) {
      if (kHeldOut.contains(static_cast<std::int64_t>(i))) {
        held_out.push_back(rows[i]);
      }
    }
    auto const answers = serve(folder / "model.safetensors", held_out);
    std::filesystem::remove_all(folder);
    teach::expect(answers == evaluated, "each answer has the bits of the row's evaluation");
    std::cout << answers.size() << " answers have the bits of the evaluation\n";
  });
}
