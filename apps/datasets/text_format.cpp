// SPDX-License-Identifier: Apache-2.0
#include "datasets/text_format.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace msstream::datasets {

namespace {

constexpr std::size_t kMaritalStatus = 7;
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

TextFormat census(bool never_married_task) {
  TextFormat format{"census", ',', true, false, {}};
  for (auto const name : kCensusNames) {
    format.columns.push_back({std::string(name), ColumnRole::categorical});
  }
  for (auto const column : kCensusNumbers) {
    format.columns[column].role = ColumnRole::continuous;
  }
  format.columns[24].role = ColumnRole::ignored;
  format.columns[41].role = ColumnRole::label_income;
  if (never_married_task) {
    format.columns[kMaritalStatus] = {"never married", ColumnRole::label_never_married};
  }
  return format;
}

TextFormat criteo(std::string_view name, char separator, bool has_header) {
  TextFormat format{name, separator, false, has_header, {}};
  if (has_header) {
    format.columns.push_back({"Id", ColumnRole::ignored});
  }
  format.columns.push_back({"Label", ColumnRole::label_zero_one});
  for (int i = 1; i <= 13; ++i) {
    format.columns.push_back({fmt::format("I{}", i), ColumnRole::continuous_logged});
  }
  for (int i = 1; i <= 26; ++i) {
    format.columns.push_back({fmt::format("C{}", i), ColumnRole::categorical});
  }
  return format;
}

}  // namespace

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
  }
  return "unknown";
}

Schema TextFormat::schema() const {
  Schema schema;
  std::string second_label;
  for (auto const& column : columns) {
    switch (column.role) {
      case ColumnRole::categorical:
        schema.categorical.push_back(column.name);
        break;
      case ColumnRole::continuous:
      case ColumnRole::continuous_logged:
        schema.continuous.push_back(column.name);
        break;
      case ColumnRole::label_zero_one:
      case ColumnRole::label_income:
        schema.labels.push_back(column.name);
        break;
      case ColumnRole::label_never_married:
        second_label = column.name;
        break;
      case ColumnRole::ignored:
        break;
    }
  }
  if (!second_label.empty()) {
    schema.labels.push_back(second_label);
  }
  return schema;
}

TextFormat text_format(ReaderOptions const& options, DataFormat format) {
  require(!options.never_married_task || format == DataFormat::census,
          "the never-married task needs census data, found {}",
          name_of(format));
  switch (format) {
    case DataFormat::census:
      return census(options.never_married_task);
    case DataFormat::criteo_csv:
      return criteo("criteo-csv", ',', true);
    case DataFormat::criteo_tsv:
    case DataFormat::automatic:
      break;
  }
  return criteo("criteo-tsv", '\t', false);
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
