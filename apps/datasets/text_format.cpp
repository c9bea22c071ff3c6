// SPDX-License-Identifier: Apache-2.0
#include "datasets/text_format.hpp"

#include "datasets/click_columns.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/detail/csv_record.hpp>
#include <msstream/data/detail/text_values.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/transform.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace msstream::datasets {

namespace {

using data::detail::split_record;

constexpr std::size_t kMaritalStatus = 7;
constexpr std::size_t kInstanceWeight = 24;
constexpr std::size_t kIncome = 41;
constexpr std::array<std::size_t, 7> kCensusNumbers{0, 5, 16, 17, 18, 30, 39};

constexpr std::array<std::string_view, 42> kCensusNames{"age",
                                                        "class of worker",
                                                        "industry code",
                                                        "occupation code",
                                                        "education",
                                                        "wage per hour",
                                                        "enrolled in education",
                                                        "marital status",
                                                        "major industry",
                                                        "major occupation",
                                                        "race",
                                                        "hispanic origin",
                                                        "sex",
                                                        "member of a labor union",
                                                        "reason for unemployment",
                                                        "full or part time",
                                                        "capital gains",
                                                        "capital losses",
                                                        "dividends",
                                                        "tax filer status",
                                                        "region of previous residence",
                                                        "state of previous residence",
                                                        "household status",
                                                        "household summary",
                                                        "instance weight",
                                                        "migration between areas",
                                                        "migration between regions",
                                                        "migration within region",
                                                        "same house a year ago",
                                                        "previous residence in sunbelt",
                                                        "persons working for employer",
                                                        "family members under 18",
                                                        "father's birth country",
                                                        "mother's birth country",
                                                        "birth country",
                                                        "citizenship",
                                                        "own business",
                                                        "veteran's questionnaire",
                                                        "veteran's benefits",
                                                        "weeks worked",
                                                        "year",
                                                        "income"};

/// The largest accepted number. Numbers beyond it are errors in the data: in float32 their squares
/// and differences would be infinite.
constexpr float kLargestNumber = 1e12F;

std::optional<float> to_number(std::string_view value) {
  auto const number = data::detail::parse_number<float>(value);
  return number && std::abs(*number) <= kLargestNumber ? number : std::nullopt;
}

std::optional<float> to_income(std::string_view value) {
  value = value.substr(0, value.find_last_not_of(". ") + 1);
  if (value == "- 50000") {
    return 0.0F;
  }
  return value == "50000+" ? std::optional(1.0F) : std::nullopt;
}

std::optional<float> to_zero_one(std::string_view value) {
  if (value == "0") {
    return 0.0F;
  }
  return value == "1" ? std::optional(1.0F) : std::nullopt;
}

/// Returns a column of the keys of a categorical field. An unknown value has one key, whether it
/// is empty or `?`.
data::TextColumn keys_of(std::string name) {
  return {.name = std::move(name), .type = data::ColumnType::hashed, .to_int = [](auto value) {
            return std::optional(data::string_key(value == "?" ? "" : value));
          }};
}

data::TextColumn label_of(std::string name,
                          std::string_view field,
                          data::TextColumn::ToFloat to_float,
                          std::string expected) {
  return {.name = std::move(name),
          .fields = {std::string(field)},
          .to_float = std::move(to_float),
          .expected = std::move(expected)};
}

TextFormat census(bool never_married_task) {
  using data::Transform;
  TextFormat format;
  auto& options = format.options;
  options.header = false;
  options.trim_spaces = true;
  options.names.assign(kCensusNames.begin(), kCensusNames.end());
  data::TextColumn continuous{.name = std::string(kContinuous),
                              .to_float = to_number,
                              .transforms = {Transform::normalize()},
                              .expected = "a number from -1e12 to 1e12"};
  for (std::size_t i = 0; i < kCensusNames.size(); ++i) {
    bool const is_label = i == kIncome || (never_married_task && i == kMaritalStatus);
    if (std::ranges::count(kCensusNumbers, i) != 0) {
      continuous.fields.emplace_back(kCensusNames[i]);
    } else if (i != kInstanceWeight && !is_label) {
      options.columns.push_back(keys_of(std::string(kCensusNames[i])));
    }
  }
  options.columns.push_back(std::move(continuous));
  auto const income = kCensusNames[kIncome];
  options.columns.push_back(
      label_of(std::string(income), income, to_income, "'- 50000.' or '50000+.'"));
  if (never_married_task) {
    options.columns.push_back(label_of(
        "never married",
        kCensusNames[kMaritalStatus],
        [](std::string_view value) {
          return std::optional(value == "Never married" ? 1.0F : 0.0F);
        },
        "a marital status"));
  }
  return format;
}

TextFormat criteo(bool tabs, std::vector<std::vector<data::Transform>> const& lists) {
  auto const words = data::numbered_names("C", 1, 26);
  auto const numbers = data::numbered_names("I", 1, 13);
  TextFormat format;
  format.tabs = tabs;
  auto& options = format.options;
  options.header = !tabs;
  if (!tabs) {
    options.names.emplace_back("Id");
  }
  options.names.emplace_back("Label");
  for (auto const* names : {&numbers, &words}) {
    options.names.insert(options.names.end(), names->begin(), names->end());
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto& column = options.columns.emplace_back(keys_of(words[i]));
    if (!lists.empty()) {
      column.value_separator = '|';
      column.transforms = lists[i];
      continue;
    }
    // A list that is read as one word would be a key of its own, which no other row has.
    column.to_int = [to_key = column.to_int](std::string_view value) {
      return value.find('|') == std::string_view::npos ? to_key(value) : std::nullopt;
    };
    column.expected = "one word; train_dlrm reads lists, with | between words, by --multi-hot";
  }
  options.columns.push_back({.name = std::string(kContinuous),
                             .fields = numbers,
                             .transforms = transforms_of_criteo_numbers(),
                             .expected = "a number or nothing"});
  options.columns.push_back(label_of("Label", "Label", to_zero_one, "0 or 1"));
  return format;
}

}  // namespace

std::vector<data::Transform> transforms_of_criteo_numbers() {
  using data::Transform;
  return {Transform::fill_missing(0),
          Transform::clip(0, std::numeric_limits<float>::max()),
          Transform::log1p(),
          Transform::normalize()};
}

void require_lists(std::vector<std::vector<data::Transform>> const& lists) {
  require(lists.empty() || lists.size() == 26,
          "transforms of {} lists; expected those of C1 to C26",
          lists.size());
}

std::string_view name_of(DataFormat format) {
  switch (format) {
    case DataFormat::automatic:
      return "auto";
    case DataFormat::census:
      return "census";
    case DataFormat::criteo_csv:
      return "criteo-csv";
    case DataFormat::criteo_tsv:
      return "criteo-tsv";
    case DataFormat::criteo_parquet:
      return "criteo-parquet";
  }
  return "unknown";
}

TextFormat text_format(ReaderOptions const& options, DataFormat format) {
  require(!options.never_married_task || format == DataFormat::census,
          "the never-married task needs census data, found {}",
          name_of(format));
  require(options.lists.empty() || format != DataFormat::census,
          "lists of words need Criteo's data, found {}",
          name_of(format));
  require_lists(options.lists);
  auto chosen = format == DataFormat::census
                    ? census(options.never_married_task)
                    : criteo(format != DataFormat::criteo_csv, options.lists);
  chosen.options.chunk_bytes = options.chunk_bytes;
  return chosen;
}

DataFormat recognise_format(std::string_view first_record) {
  auto const values = split_record(first_record, {',', false}).values;
  if (values.size() == 40 + 1 && values[0].text == "Id" && values[1].text == "Label") {
    return DataFormat::criteo_csv;
  }
  if (split_record(first_record, {',', true}).values.size() == kCensusNames.size()) {
    return DataFormat::census;
  }
  return std::ranges::count(first_record, '\t') == 39 ? DataFormat::criteo_tsv
                                                      : DataFormat::automatic;
}

}  // namespace msstream::datasets
