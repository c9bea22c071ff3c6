// SPDX-License-Identifier: Apache-2.0
// Loads checkpoints that do not fit as they are: the weights of a program in PyTorch, under other
// names and transposed; and a table whose vocabulary has grown since.
#include "teach.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/dense_stack.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace ms = msstream;

namespace {

// Writes a file as torch.save of safetensors would, for torch.nn.Sequential(Linear(2, 3), ReLU(),
// Linear(3, 1)) under the name mlp: weights are [outputs, inputs], and layers have even numbers.
void write_torch_file(ms::Device<> const& device, std::filesystem::path const& path) {
  auto const weight = [&](std::vector<float> const& values, ms::Shape const& shape) {
    return ms::to_device(device, values, shape);
  };
  ms::checkpoint::save(path,
                       ms::checkpoint::Tensors()
                           .add("mlp.0.weight", weight({1, 2, 3, 4, 5, 6}, {3, 2}))
                           .add("mlp.0.bias", weight({0, 0, 0}, {3}))
                           .add("mlp.2.weight", weight({1, 10, 100}, {1, 3}))
                           .add("mlp.2.bias", weight({7}, {1})));
}

// Returns mlp.2.weight for mlp/1/weight: a ReLU is between the layers.
std::string torch_name_of(std::string const& name) {
  auto const layer = std::stoi(name.substr(4));
  return "mlp." + std::to_string(2 * layer) + "." + name.substr(name.rfind('/') + 1);
}

void load_from_pytorch(std::filesystem::path const& path) {
  ms::Device<> const device;
  write_torch_file(device, path);
  ms::Parameters parameters(device);
  ms::DenseStack const mlp(parameters, "mlp", 2, {3, 1});

  ms::checkpoint::load(path,
                       ms::checkpoint::Tensors(parameters),
                       {.rename = torch_name_of, .transposed = {"mlp/*/weight"}});

  auto const x = ms::to_device(device, std::vector<float>{1, 1}, {1, 2});
  teach::expect(ms::to_host(mlp(ms::no_tape, x))[0] == 3 * 1 + 7 * 10 + 11 * 100 + 7,
                "what the model computes in PyTorch");
}

std::shared_ptr<ms::data::CsvReader> rows_with(std::filesystem::path const& path,
                                               std::vector<std::string> const& items) {
  std::ofstream file(path);
  file << "item\n";
  for (auto const& item : items) {
    file << item << '\n';
  }
  file.close();
  return std::make_shared<ms::data::CsvReader>(
      ms::data::TextFile(path),
      ms::data::TextOptions{.columns = {{.name = "item",
                                         .type = ms::data::ColumnType::hashed,
                                         .transforms = {ms::data::Transform::vocabulary()}}}});
}

// A model with a row for each item, and for all items that the vocabulary lacks.
struct Model {
  Model(ms::Device<> const& device, ms::data::Transforms const& transforms)
      : parameters(device),
        items(parameters.table("items", {transforms.id_count("item"), 1}, ms::init::zeros())),
        optimizer(device, {.kind = ms::ops::OptimizerKind::adagrad, .learning_rate = 0.1F}) {
    optimizer.add(parameters);
  }

  ms::Parameters<> parameters;
  ms::Tensor<float> items;
  ms::Optimizer<> optimizer;
};

void save_yesterday(ms::Device<> const& device, std::filesystem::path const& path) {
  auto const reader = rows_with(path.string() + ".csv", {"hat", "hat", "shoe"});
  ms::data::Transforms transforms(reader->schema());
  transforms.fit(*reader);
  Model const model(device, transforms);
  ms::copy(model.items, ms::to_device(device, std::vector<float>{1, 2, 3}, {3, 1}));
  ms::checkpoint::save(path,
                       ms::checkpoint::Tensors(model.parameters, model.optimizer, transforms));
}

void grow_a_vocabulary(std::filesystem::path const& path) {
  ms::Device<> const device;
  save_yesterday(device, path);

  auto const reader = rows_with(path.string() + ".csv", {"sock", "sock", "sock", "shoe", "hat"});
  ms::data::Transforms const earlier(reader->schema());
  ms::checkpoint::load(path, ms::checkpoint::Tensors(earlier), {.only = {"transforms/*"}});
  ms::data::Transforms transforms(reader->schema());
  transforms.fit(*reader);  // makes the vocabulary of today, and with it the size of the table
  Model const model(device, transforms);

  auto const rows = ms::checkpoint::rows_by_key(transforms, earlier, "item");
  ms::checkpoint::load(
      path,
      ms::checkpoint::Tensors(model.parameters, model.optimizer),
      {.except = {"transforms/*"}, .rows = {{"items", rows}, {"optimizer/items/*", rows}}});

  auto const of_items = ms::to_host(model.items);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    auto const expected = rows[row] < 0 ? 0.0F : static_cast<float>(rows[row] + 1);
    teach::expect(of_items[row] == expected, "the row of each item that was known");
  }
  teach::expect(rows.size() == 4 && transforms.word("item", 1) == "sock", "sock is new");
  teach::expect(rows[1] == -1, "and keeps the row that it has");
}

}  // namespace

int main() {
  return teach::run([] {
    auto const folder = std::filesystem::temp_directory_path() /
                        ("msstream-other-checkpoints-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    load_from_pytorch(folder / "torch.safetensors");
    grow_a_vocabulary(folder / "model.safetensors");
    std::filesystem::remove_all(folder);
  });
}
