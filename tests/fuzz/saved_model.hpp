// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"
#include "scratch_folder.hpp"

#include <msstream/checkpoint/safetensors.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace msstream::fuzz {

/// A tensor in host memory that owns its bytes.
struct OwnedTensor {
  std::string type;  ///< in the words of the format
  std::optional<DType> dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  friend bool operator==(OwnedTensor const&, OwnedTensor const&) = default;
};

/// The tensors and the metadata of a safetensors file, held in memory.
struct Model {
  std::map<std::string, OwnedTensor> tensors;
  checkpoint::Metadata metadata;
  friend bool operator==(Model const&, Model const&) = default;
};

/// Reads a model from a safetensors file. Throws the exceptions of SafetensorsFile.
[[nodiscard]] inline Model load_model(std::filesystem::path const& path) {
  checkpoint::SafetensorsFile const file(path);
  Model model{{}, file.metadata()};
  for (auto const& [name, tensor] : file.tensors()) {
    OwnedTensor owned{tensor.type, tensor.dtype, tensor.shape, {}};
    owned.bytes.resize(static_cast<std::size_t>(tensor.bytes));
    file.read(tensor, 0, owned.bytes);
    model.tensors.emplace(name, std::move(owned));
  }
  return model;
}

/// Writes a model to a safetensors file. Throws the exceptions of save_safetensors().
inline void save_model(std::filesystem::path const& path, Model const& model) {
  std::vector<checkpoint::HostTensor> saved;
  for (auto const& [name, tensor] : model.tensors) {
    saved.emplace_back(name, tensor.shape, std::span<std::uint8_t const>());
    saved.back().dtype = tensor.dtype.value();
    saved.back().bytes = tensor.bytes;
  }
  checkpoint::save_safetensors(path, saved, model.metadata);
}

[[nodiscard]] inline std::string bytes_of_file(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace msstream::fuzz
