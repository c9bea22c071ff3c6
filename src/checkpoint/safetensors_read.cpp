// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_header.hpp"

#include <msstream/checkpoint/safetensors.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace msstream::detail {

namespace {

using TensorOfFile = checkpoint::SafetensorsFile::Tensor;

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
    throw std::invalid_argument(fmt::format(
        "{}: expected a list of whole numbers, found {}", what, shortened(array.dump())));
  }
  return out;
}

TensorOfFile parse_entry(nlohmann::json const& json) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    throw std::invalid_argument("expected dtype, shape and data_offsets");
  }
  auto const& word = json["dtype"];
  auto const type = word.is_string() ? format_type(word.get<std::string>()) : std::nullopt;
  if (!type) {
    throw std::invalid_argument(
        fmt::format("dtype: expected F32, F16, BF16, I32, I64, U8 or another of the format, found "
                    "{}",
                    shortened(word.dump())));
  }
  auto shape = integers(json["shape"], "shape");
  auto const offsets = integers(json["data_offsets"], "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw std::invalid_argument(fmt::format("data_offsets: expected [begin, end], found {}",
                                            shortened(describe_shape(offsets))));
  }
  auto const bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  if (tensor_bytes(type->bits, shape) != bytes) {
    throw std::invalid_argument(
        fmt::format("shape {} of {} does not take the {} bytes of its data_offsets",
                    shortened(describe_shape(shape)),
                    type->word,
                    bytes));
  }
  return {std::string(type->word),
          type->dtype,
          std::move(shape),
          static_cast<std::uint64_t>(offsets[0]),
          bytes};
}

checkpoint::Metadata parse_metadata(nlohmann::json const& json) {
  checkpoint::Metadata metadata;
  bool valid = json.is_object();
  for (auto const& [key, value] : json.items()) {
    valid = valid && value.is_string();
    if (valid) {
      metadata[key] = value.get<std::string>();
    }
  }
  if (!valid) {
    throw std::invalid_argument(fmt::format(
        "{}: expected an object of strings, found {}", kMetadataKey, shortened(json.dump())));
  }
  return metadata;
}

/// Throws std::invalid_argument unless the tensors cover the data without gaps or overlaps, from
/// the first byte to the last.
void require_tiling(std::map<std::string, TensorOfFile> const& tensors, std::uint64_t data_bytes) {
  std::vector<std::pair<std::string const*, TensorOfFile const*>> ordered;
  for (auto const& [name, tensor] : tensors) {
    ordered.emplace_back(&name, &tensor);
  }
  std::ranges::stable_sort(ordered, {}, [](auto const& item) {
    return std::pair(item.second->begin, item.second->bytes);
  });
  std::uint64_t covered = 0;
  for (auto const& [name, tensor] : ordered) {
    std::uint64_t const end = tensor->begin + tensor->bytes;
    if (end > data_bytes) {
      throw std::invalid_argument(fmt::format(
          "tensor '{}' ends at byte {}, but there are {}; was the file copied completely?",
          shortened(*name),
          end,
          data_bytes));
    }
    if (tensor->begin != covered) {
      throw std::invalid_argument(fmt::format(
          "tensor '{}{} at byte {}, expected {}",
          shortened(*name),
          tensor->begin < covered ? "' overlaps another: begins" : "' leaves a gap: begins",
          tensor->begin,
          covered));
    }
    covered = end;
  }
  if (covered != data_bytes) {
    throw std::invalid_argument(
        fmt::format("{} bytes follow the last tensor", data_bytes - covered));
  }
}

[[noreturn]] void throw_unreadable(std::filesystem::path const& path, char const* what, int error) {
  throw std::system_error(
      error, std::generic_category(), fmt::format("{}: cannot {}", path.string(), what));
}

/// Opens a regular file. Throws std::invalid_argument for folders, FIFOs and devices.
int open_regular(std::filesystem::path const& path) {
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    int const error = errno;
    if (descriptor >= 0) {
      ::close(descriptor);
    }
    throw_unreadable(path, "open", error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw std::invalid_argument(path.string() +
                                (S_ISDIR(status.st_mode)
                                     ? ": expected a safetensors file, found a folder"
                                     : ": expected a regular file: its length must be known"));
  }
  return descriptor;
}

}  // namespace

}  // namespace msstream::detail

namespace msstream::checkpoint {

SafetensorsFile::SafetensorsFile(std::filesystem::path const& path)
    : path_(path), descriptor_(detail::open_regular(path)) {
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      detail::throw_unreadable(path_, "find the length", errno);
    }
    read_header(static_cast<std::uint64_t>(status.st_size));
  } catch (std::invalid_argument const& error) {
    ::close(descriptor_);
    throw std::invalid_argument(
        fmt::format("{}: no valid safetensors file: {}", path_.string(), error.what()));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::close(descriptor_);
}

void SafetensorsFile::read_header(std::uint64_t file_bytes) {
  std::uint64_t header_bytes = 0;
  if (file_bytes < sizeof header_bytes) {
    throw std::invalid_argument(
        fmt::format("expected a header length of 8 bytes, found {}", file_bytes));
  }
  read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  std::uint64_t const rest = file_bytes - sizeof header_bytes;
  auto const most = std::min(rest, detail::kLongestHeader);
  if (header_bytes > most) {
    throw std::invalid_argument(fmt::format(
        "the header claims {} bytes, more than the {} that can be", header_bytes, most));
  }
  std::string header(header_bytes, '\0');
  read_at(sizeof header_bytes, std::as_writable_bytes(std::span(header)));
  parse_header(header, sizeof header_bytes + header_bytes, rest - header_bytes);
}

void SafetensorsFile::parse_header(std::string_view header,
                                   std::uint64_t data_begin,
                                   std::uint64_t data_bytes) {
  if (!header.starts_with('{')) {
    throw std::invalid_argument("the header does not begin with '{'");
  }
  auto const json = detail::parse_strictly(header);
  for (auto const& [name, value] : json.items()) {
    if (name == detail::kMetadataKey) {
      metadata_ = detail::parse_metadata(value);
      continue;
    }
    try {
      tensors_.emplace(name, detail::parse_entry(value));
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument(
          fmt::format("tensor '{}': {}", detail::shortened(name), error.what()));
    }
  }
  detail::require_tiling(tensors_, data_bytes);
  for (auto& [name, tensor] : tensors_) {
    tensor.begin += data_begin;
  }
}

void SafetensorsFile::read_at(std::uint64_t position, std::span<std::byte> to) const {
  while (!to.empty()) {
    auto const got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      // The length was checked when the file was opened, so its end came nearer meanwhile.
      detail::throw_unreadable(path_, "read to the end", got < 0 ? errno : EIO);
    }
    position += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void SafetensorsFile::read(Tensor const& from, std::uint64_t begin, std::span<std::byte> to) const {
  if (begin > from.bytes || to.size() > from.bytes - begin) {
    throw std::invalid_argument(fmt::format("{}: bytes [{}, {}) asked of a tensor of {} bytes",
                                            path_.string(),
                                            begin,
                                            begin + to.size(),
                                            from.bytes));
  }
  read_at(from.begin + begin, to);
}

SafetensorsFile::Tensor const& SafetensorsFile::tensor(std::string const& name) const {
  auto const found = tensors_.find(name);
  if (found == tensors_.end()) {
    constexpr int most = 20;
    std::string known;
    int listed = 0;
    for (auto const& [other, ignored] : tensors_) {
      if (++listed > most) {
        known += fmt::format(" and {} more", tensors_.size() - most);
        break;
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", detail::shortened(other));
    }
    throw std::invalid_argument(
        fmt::format("{}: there is no tensor '{}', only: {}", path_.string(), name, known));
  }
  return found->second;
}

SafetensorsFile::Tensor const& SafetensorsFile::expect(
    std::string const& name, DType dtype, std::vector<std::int64_t> const& shape) const {
  auto const& found = tensor(name);
  if (found.dtype != dtype || found.shape != shape) {
    throw std::invalid_argument(
        fmt::format("{}: tensor '{}': expected {} {}, found {} {}",
                    path_.string(),
                    name,
                    detail::tensor_word(dtype),
                    detail::describe_shape(shape),
                    found.type,
                    detail::shortened(detail::describe_shape(found.shape))));
  }
  return found;
}

}  // namespace msstream::checkpoint
