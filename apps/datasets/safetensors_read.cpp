// SPDX-License-Identifier: Apache-2.0
#include "datasets/safetensors.hpp"
#include "datasets/tensor_header.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

namespace msstream::datasets {

namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the safetensors library

struct Entry {
  SafetensorsFile::Tensor tensor;
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<std::int64_t> integers(nlohmann::json const& array, std::string_view what) {
  std::vector<std::int64_t> out;
  bool valid = array.is_array();
  if (valid) {
    for (auto const& item : array) {
      // Rejects a number of 2^63 or more, which would become negative without an error.
      valid = valid && item.is_number_unsigned() && item.get<std::int64_t>() >= 0;
      out.push_back(valid ? item.get<std::int64_t>() : 0);
    }
  }
  if (!valid) {
    throw data::DataError(fmt::format(
        "{}: expected a list of whole numbers, found {}", what, shortened(array.dump())));
  }
  return out;
}

Entry parse_entry(nlohmann::json const& json) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    throw data::DataError("expected dtype, shape and data_offsets");
  }
  auto const& word = json["dtype"];
  auto const dtype = word.is_string() ? dtype_of_word(word.get<std::string>()) : std::nullopt;
  if (!dtype) {
    throw data::DataError(fmt::format("dtype: expected F32, F16, BF16, I32, I64 or U8, found {}",
                                      shortened(word.dump())));
  }
  auto shape = integers(json["shape"], "shape");
  auto const offsets = integers(json["data_offsets"], "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw data::DataError(fmt::format("data_offsets: expected [begin, end], found {}",
                                      shortened(describe_shape(offsets))));
  }
  auto const bytes = tensor_bytes(*dtype, shape);
  if (!bytes || *bytes != static_cast<std::uint64_t>(offsets[1] - offsets[0])) {
    throw data::DataError(
        fmt::format("shape {} of {} does not take the {} bytes of its data_offsets",
                    shortened(describe_shape(shape)),
                    tensor_word(*dtype),
                    offsets[1] - offsets[0]));
  }
  return {{*dtype, std::move(shape), {}},
          static_cast<std::uint64_t>(offsets[0]),
          static_cast<std::uint64_t>(offsets[1])};
}

TensorMetadata parse_metadata(nlohmann::json const& json) {
  TensorMetadata metadata;
  bool valid = json.is_object();
  for (auto const& [key, value] : json.items()) {
    valid = valid && value.is_string();
    if (valid) {
      metadata[key] = value.get<std::string>();
    }
  }
  if (!valid) {
    throw data::DataError(fmt::format(
        "{}: expected an object of strings, found {}", kMetadataKey, shortened(json.dump())));
  }
  return metadata;
}

/// Throws DataError unless the entries cover the data without gaps or overlaps, from the first byte
/// to the last.
void require_tiling(std::map<std::string, Entry> const& entries, std::uint64_t data_bytes) {
  std::vector<std::pair<std::string, Entry>> ordered(entries.begin(), entries.end());
  std::ranges::sort(
      ordered, {}, [](auto const& item) { return std::pair(item.second.begin, item.second.end); });
  std::uint64_t covered = 0;
  for (auto const& [name, entry] : ordered) {
    if (entry.end > data_bytes) {
      throw data::DataError(fmt::format(
          "tensor '{}' ends at byte {}, but there are {}; was the file copied completely?",
          shortened(name),
          entry.end,
          data_bytes));
    }
    if (entry.begin != covered) {
      throw data::DataError(fmt::format(
          "tensor '{}{} at byte {}, expected {}",
          shortened(name),
          entry.begin < covered ? "' overlaps another: begins" : "' leaves a gap: begins",
          entry.begin,
          covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw data::DataError(fmt::format("{} bytes follow the last tensor", data_bytes - covered));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path const& path) : path_(path.string()) {
  std::error_code ignored;
  auto const status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw data::DataError(fmt::format("{}{}",
                                      path_,
                                      std::filesystem::is_directory(status)
                                          ? ": expected a safetensors file, found a folder"
                                          : ": expected a regular file: its length must be known"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    throw data::DataError(
        fmt::format("{}: cannot open: {}", path_, std::generic_category().message(errno)));
  }
  auto const file_bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  try {
    std::uint64_t header_bytes = 0;
    if (file_bytes < sizeof header_bytes) {
      throw data::DataError(
          fmt::format("expected a header length of 8 bytes, found {}", file_bytes));
    }
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    std::uint64_t const rest = file_bytes - sizeof header_bytes;
    if (header_bytes > std::min(rest, kLongestHeader)) {
      throw data::DataError(fmt::format("the header claims {} bytes, more than the {} that can be",
                                        header_bytes,
                                        std::min(rest, kLongestHeader)));
    }
    std::string header(header_bytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    data_.resize(rest - header_bytes);
    file.read(reinterpret_cast<char*>(data_.data()), static_cast<std::streamsize>(data_.size()));
    if (!file) {
      throw data::DataError("cannot read to the end");
    }
    read_header(header);
  } catch (data::DataError const& error) {
    throw data::DataError(fmt::format("{}: no valid safetensors file: {}", path_, error.what()));
  }
}

void SafetensorsFile::read_header(std::string_view header) {
  if (!header.starts_with('{')) {
    throw data::DataError("the header does not begin with '{'");
  }
  auto const json = parse_strictly(header);
  std::map<std::string, Entry> entries;
  for (auto const& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(value);
      continue;
    }
    try {
      entries.emplace(name, parse_entry(value));
    } catch (data::DataError const& error) {
      throw data::DataError(fmt::format("tensor '{}': {}", shortened(name), error.what()));
    }
  }
  require_tiling(entries, data_.size());
  for (auto& [name, entry] : entries) {
    entry.tensor.bytes = std::span(data_).subspan(entry.begin, entry.end - entry.begin);
    tensors_.emplace(name, std::move(entry.tensor));
  }
}

SafetensorsFile::Tensor const& SafetensorsFile::tensor(std::string const& name) const {
  auto const found = tensors_.find(name);
  if (found == tensors_.end()) {
    std::string known;
    for (auto const& [other, ignored] : tensors_) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", other);
    }
    throw data::DataError(fmt::format("{}: there is no tensor '{}', only: {}", path_, name, known));
  }
  return found->second;
}

void SafetensorsFile::check(std::string const& name,
                            Tensor const& found,
                            DType dtype,
                            std::vector<std::int64_t> const& shape) const {
  if (found.dtype != dtype || found.shape != shape) {
    throw data::DataError(fmt::format("{}: tensor '{}': expected {} {}, found {} {}",
                                      path_,
                                      name,
                                      tensor_word(dtype),
                                      describe_shape(shape),
                                      tensor_word(found.dtype),
                                      describe_shape(found.shape)));
  }
}

}  // namespace msstream::datasets
