// SPDX-License-Identifier: Apache-2.0
#include "datasets/tensor_header.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>

namespace msstream::datasets {

std::string_view tensor_word(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "F32";
    case DType::float16:
      return "F16";
    case DType::bfloat16:
      return "BF16";
    case DType::int32:
      return "I32";
    case DType::int64:
      return "I64";
    case DType::uint8:
      return "U8";
  }
  return "";
}

std::optional<DType> dtype_of_word(std::string_view word) {
  for (auto const dtype : {DType::float32,
                           DType::float16,
                           DType::bfloat16,
                           DType::int32,
                           DType::int64,
                           DType::uint8}) {
    if (tensor_word(dtype) == word) {
      return dtype;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<std::int64_t const> shape) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (std::ranges::any_of(shape, [](auto extent) { return extent < 0; })) {
    return std::nullopt;
  }
  // An extent of 0 makes the size 0, even if the product of the others overflows.
  if (std::ranges::find(shape, 0) != shape.end()) {
    return 0;
  }
  std::uint64_t bytes = bytes_of(dtype);
  for (auto const extent : shape) {
    auto const factor = static_cast<std::uint64_t>(extent);
    if (bytes > most / factor) {
      return std::nullopt;
    }
    bytes *= factor;
  }
  return bytes;
}

std::string shortened(std::string_view value) {
  constexpr std::size_t most = 160;
  std::size_t kept = std::min(most, value.size());
  while (kept < value.size() && (static_cast<unsigned char>(value[kept]) & 0xC0U) == 0x80) {
    --kept;  // cuts before a UTF-8 character, not within its bytes
  }
  std::string out(value.substr(0, kept));
  for (char& character : out) {
    bool const printable = static_cast<unsigned char>(character) >= 0x20 && character != 0x7F;
    character = printable ? character : '?';
  }
  return kept < value.size() ? out + "…" : out;
}

bool is_utf8(std::string const& value) {
  try {
    (void)nlohmann::json(value).dump();
    return true;
  } catch (nlohmann::json::type_error const&) {
    return false;
  }
}

std::string describe_shape(std::span<std::int64_t const> shape) {
  std::string out = "[";
  for (auto const extent : shape) {
    out += fmt::format("{}{}", out.size() == 1 ? "" : ", ", extent);
  }
  return out + "]";
}

nlohmann::json parse_strictly(std::string_view json) {
  using Event = nlohmann::json::parse_event_t;
  constexpr int deepest = 8;
  std::vector<std::set<std::string>> open_objects;
  auto const refuse_odd = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > deepest) {
      throw data::DataError(fmt::format("values nest deeper than {}", deepest));
    }
    if (event == Event::object_start) {
      open_objects.emplace_back();
    } else if (event == Event::object_end) {
      open_objects.pop_back();
    } else if (event == Event::key &&
               !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw data::DataError(
          fmt::format("the key '{}' is there twice", shortened(parsed.get<std::string>())));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(json, refuse_odd);
  } catch (nlohmann::json::exception const& error) {
    throw data::DataError(fmt::format("the header is no JSON: {}", shortened(error.what())));
  }
}

}  // namespace msstream::datasets
