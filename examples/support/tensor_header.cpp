// SPDX-License-Identifier: Apache-2.0
#include "tensor_header.hpp"

#include <msstream/base/text.hpp>
#include <msstream/support/data_error.hpp>

#include <limits>
#include <set>

namespace msstream::support {

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
  std::uint64_t bytes = bytes_of(dtype);
  for (auto const extent : shape) {
    if (extent < 0) {
      return std::nullopt;
    }
    auto const factor = static_cast<std::uint64_t>(extent);
    if (factor > 0 && bytes > most / factor) {
      return std::nullopt;
    }
    bytes *= factor;
  }
  return bytes;
}

std::string describe_shape(std::span<std::int64_t const> shape) {
  std::string out = "[";
  for (auto const extent : shape) {
    out += text(out.size() == 1 ? "" : ", ", extent);
  }
  return out + "]";
}

nlohmann::json parse_strictly(std::string_view json) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open_objects;
  auto const refuse_duplicates = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) {
      open_objects.emplace_back();
    } else if (event == Event::object_end) {
      open_objects.pop_back();
    } else if (event == Event::key &&
               !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw DataError(text("the key '", parsed.get<std::string>(), "' is there twice"));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(json, refuse_duplicates);
  } catch (nlohmann::json::exception const& error) {
    throw DataError(text("the header is no JSON: ", error.what()));
  }
}

}  // namespace msstream::support
