// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of safetensors files. A file must either be refused by an exception whose
// message begins with its name, or be read as a model. If its element types are those of this
// library, the model can be saved, read back unchanged, and saved again as the same bytes.
#include "saved_model.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace {

using namespace msstream;
using fuzz::expect;

std::optional<fuzz::Model> load(std::filesystem::path const& path) {
  try {
    return fuzz::load_model(path);
  } catch (std::invalid_argument const& error) {
    std::string_view const message = error.what();
    expect(message.starts_with(path.string() + ": "), "the file is not named: {}", message);
    expect(message.size() < path.string().size() + 1000, "a message of {} bytes", message.size());
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  static fuzz::ScratchFolder const folder;
  auto const model = load(folder.write("given", fuzz::as_text(bytes, count)));
  if (!model) {
    return 0;
  }
  std::size_t data_bytes = 0;
  for (auto const& [name, tensor] : model->tensors) {
    std::uint64_t elements = 1;
    for (auto const extent : tensor.shape) {
      elements *= static_cast<std::uint64_t>(extent);
    }
    expect(!tensor.dtype || elements * bytes_of(*tensor.dtype) == tensor.bytes.size(),
           "shape and bytes of {}",
           name);
    data_bytes += tensor.bytes.size();
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes, sizeof header_bytes);
  expect(sizeof header_bytes + header_bytes + data_bytes == count, "the tensors do not fill it");

  if (std::ranges::any_of(model->tensors, [](auto const& item) { return !item.second.dtype; })) {
    return 0;
  }
  auto const saved = folder / "saved";
  fuzz::save_model(saved, *model);
  expect(load(saved) == model, "it does not come back as it was saved");
  auto const saved_bytes = fuzz::bytes_of_file(saved);
  fuzz::save_model(saved, *model);
  expect(fuzz::bytes_of_file(saved) == saved_bytes, "the same model gives other bytes");
  return 0;
}
