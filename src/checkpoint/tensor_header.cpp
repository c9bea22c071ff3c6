// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_header.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

namespace {

constexpr std::array<FormatType, 20> kFormatTypes{{
    {"F32", 32, DType::float32},  {"F16", 16, DType::float16},  {"BF16", 16, DType::bfloat16},
    {"I32", 32, DType::int32},    {"I64", 64, DType::int64},    {"U8", 8, DType::uint8},
    {"BOOL", 8, std::nullopt},    {"I8", 8, std::nullopt},      {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},    {"U64", 64, std::nullopt},
    {"F64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt},
}};

}  // namespace

std::string_view tensor_word(DType dtype) {
  auto const* const found =
      std::ranges::find(kFormatTypes, std::optional(dtype), &FormatType::dtype);
  return found->word;
}

std::optional<FormatType> format_type(std::string_view word) {
  auto const* const found = std::ranges::find(kFormatTypes, word, &FormatType::word);
  return found != kFormatTypes.end() ? std::optional(*found) : std::nullopt;
}

std::optional<std::uint64_t> tensor_bytes(unsigned element_bits,
                                          std::span<std::int64_t const> shape) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (std::ranges::any_of(shape, [](auto extent) { return extent < 0; })) {
    return std::nullopt;
  }
  // An extent of 0 makes the size 0, even if the product of the others overflows.
  if (std::ranges::find(shape, 0) != shape.end()) {
    return 0;
  }
  std::uint64_t bits = element_bits;
  for (auto const extent : shape) {
    auto const factor = static_cast<std::uint64_t>(extent);
    if (bits > most / factor) {
      return std::nullopt;
    }
    bits *= factor;
  }
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
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
      throw std::invalid_argument(fmt::format("values nest deeper than {}", deepest));
    }
    if (event == Event::object_start) {
      open_objects.emplace_back();
    } else if (event == Event::object_end) {
      open_objects.pop_back();
    } else if (event == Event::key &&
               !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw std::invalid_argument(
          fmt::format("the key '{}' is there twice", shortened(parsed.get<std::string>())));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(json, refuse_odd);
  } catch (nlohmann::json::exception const& error) {
    throw std::invalid_argument(fmt::format("the header is no JSON: {}", shortened(error.what())));
  }
}

}  // namespace msstream::detail
