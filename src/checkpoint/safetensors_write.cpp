// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "checkpoint/tensor_header.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/checkpoint/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::detail {

namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are saved as they lie in memory");

void require_valid(std::span<TensorEntry const> tensors, checkpoint::Metadata const& metadata) {
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
    require(tensor_bytes(tensor.dtype, tensor.shape).has_value(),
            "safetensors: tensor {} cannot have the shape {}",
            tensor.name,
            describe_shape(tensor.shape));
  }
}

}  // namespace

FileLayout lay_out(std::span<TensorEntry const> tensors, checkpoint::Metadata const& metadata) {
  require_valid(tensors, metadata);
  FileLayout layout{{}, std::vector<std::size_t>(tensors.size())};
  std::iota(layout.order.begin(), layout.order.end(), 0U);
  std::ranges::sort(layout.order, {}, [&](std::size_t i) {
    return std::tuple(!tensors[i].comes_first,
                      -static_cast<int>(bytes_of(tensors[i].dtype)),
                      std::string_view(tensors[i].name));
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header[kMetadataKey] = metadata;
  }
  std::uint64_t offset = 0;
  for (auto const i : layout.order) {
    auto const& tensor = tensors[i];
    std::uint64_t const end = offset + *tensor_bytes(tensor.dtype, tensor.shape);
    header[tensor.name] = {
        {"dtype", tensor_word(tensor.dtype)},
        {"shape", tensor.shape},
        {"data_offsets", {std::exchange(offset, end), end}},
    };
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  std::uint64_t const json_bytes = json.size();
  require(json_bytes <= kLongestHeader,
          "safetensors: names, shapes and metadata take {} bytes; expected at most {}",
          json_bytes,
          kLongestHeader);
  layout.header.resize(sizeof json_bytes);
  std::memcpy(layout.header.data(), &json_bytes, sizeof json_bytes);
  layout.header += json;
  return layout;
}

}  // namespace msstream::detail

namespace msstream::checkpoint {

void save_safetensors(std::filesystem::path const& path,
                      std::span<HostTensor const> tensors,
                      Metadata const& metadata,
                      OutputFile::Observer observer) {
  std::vector<detail::TensorEntry> entries;
  for (auto const& tensor : tensors) {
    require(detail::tensor_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size(),
            "safetensors: tensor {} of shape {} and type {} has {} bytes",
            tensor.name,
            detail::describe_shape(tensor.shape),
            tensor.dtype,
            tensor.bytes.size());
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, false});
  }
  auto const layout = detail::lay_out(entries, metadata);
  OutputFile file(path, OutputFile::Kind::regular, std::move(observer));
  file.write(layout.header);
  for (auto const i : layout.order) {
    file.write(tensors[i].bytes.data(), tensors[i].bytes.size());
  }
  file.commit();
}

}  // namespace msstream::checkpoint
