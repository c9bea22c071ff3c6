// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "checkpoint/data_plan.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::detail {

namespace {

constexpr char const* kStepKey = "step";
constexpr char const* kMetricKey = "metric";

/// Returns the number that a text of a file is. Throws std::invalid_argument unless the whole text
/// is one.
template <class Number>
Number number_of(checkpoint::SafetensorsFile const& file,
                 char const* key,
                 std::string const& text,
                 char const* expected) {
  Number number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc{} && end == text.data() + text.size(),
          "{}: metadata '{}' is '{}'; expected {}",
          file.path().string(),
          key,
          shortened(text),
          expected);
  return number;
}

}  // namespace

checkpoint::Metadata metadata_of(checkpoint::Header header) {
  require(header.step >= 0, "checkpoint: the step is {}; expected at least 0", header.step);
  std::uint64_t bytes = 0;
  for (auto const& [key, value] : header.metadata) {
    require(key != kStepKey && key != kMetricKey && key != kSequenceKey && key != kBestKey,
            "checkpoint: the metadata name '{}' is the library's own",
            key);
    require(is_utf8(key) && is_utf8(value),
            "checkpoint: the metadata '{}' is not UTF-8",
            shortened(key));
    bytes += key.size() + value.size();
  }
  require(bytes <= kLongestHeader,
          "checkpoint: the metadata takes {} bytes; expected at most {}",
          bytes,
          kLongestHeader);
  auto metadata = std::move(header.metadata);
  metadata.emplace(kStepKey, std::to_string(header.step));
  if (header.metric) {
    metadata.emplace(kMetricKey, fmt::format("{}", *header.metric));
  }
  return metadata;
}

checkpoint::Header header_of(checkpoint::SafetensorsFile const& file) {
  checkpoint::Header header{.metadata = file.metadata()};
  auto const take = [&](char const* key) -> std::optional<std::string> {
    auto node = header.metadata.extract(key);
    return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
  };
  if (auto const step = take(kStepKey)) {
    constexpr auto expected = "a number of at least 0";
    header.step = number_of<std::int64_t>(file, kStepKey, *step, expected);
    require(header.step >= 0,
            "{}: metadata 'step' is '{}'; expected {}",
            file.path().string(),
            *step,
            expected);
  }
  if (auto const metric = take(kMetricKey)) {
    header.metric = number_of<double>(file, kMetricKey, *metric, "a number");
  }
  take(kSequenceKey);
  take(kBestKey);
  return header;
}

}  // namespace msstream::detail
