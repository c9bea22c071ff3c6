// SPDX-License-Identifier: Apache-2.0
#include "datasets/safetensors.hpp"
#include "datasets/tensor_header.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace msstream::datasets {

namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are saved as they lie in memory");

void require_valid(std::span<SavedTensor const> tensors, TensorMetadata const& metadata) {
  for (auto const& [key, value] : metadata) {
    require(is_utf8(key) && is_utf8(value),
            "safetensors: the metadata '{}' is not UTF-8",
            shortened(key));
  }
  std::set<std::string_view> names;
  for (auto const& tensor : tensors) {
    require(tensor.name != kMetadataKey, "safetensors: a tensor cannot be named {}", kMetadataKey);
    require(names.insert(tensor.name).second, "safetensors: two tensors are named {}", tensor.name);
    require(is_utf8(tensor.name),
            "safetensors: the tensor name '{}' is not UTF-8",
            shortened(tensor.name));
    require(tensor_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size(),
            "safetensors: tensor {} of shape {} and type {} has {} bytes",
            tensor.name,
            describe_shape(tensor.shape),
            tensor.dtype,
            tensor.bytes.size());
  }
}

}  // namespace

void save_safetensors(std::filesystem::path const& path,
                      std::span<SavedTensor const> tensors,
                      TensorMetadata const& metadata,
                      OutputFile::Observer observer) {
  require_valid(tensors, metadata);
  // Sorts tensors with wide elements first, so that every tensor is aligned to its element for
  // readers that map the file.
  std::vector<SavedTensor const*> ordered;
  for (auto const& tensor : tensors) {
    ordered.push_back(&tensor);
  }
  std::ranges::sort(ordered, {}, [](SavedTensor const* tensor) {
    return std::pair(-static_cast<int>(bytes_of(tensor->dtype)), std::string_view(tensor->name));
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header[kMetadataKey] = metadata;
  }
  std::uint64_t offset = 0;
  for (auto const* tensor : ordered) {
    std::uint64_t const end = offset + tensor->bytes.size();
    header[tensor->name] = {
        {"dtype", tensor_word(tensor->dtype)},
        {"shape", tensor->shape},
        {"data_offsets", {std::exchange(offset, end), end}},
    };
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  std::uint64_t const json_bytes = json.size();

  OutputFile file(path, OutputFile::Kind::regular, std::move(observer));
  file.write(&json_bytes, sizeof json_bytes);
  file.write(json);
  for (auto const* tensor : ordered) {
    file.write(tensor->bytes.data(), tensor->bytes.size());
  }
  file.commit();
}

}  // namespace msstream::datasets
