// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_plan.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace msstream::data::detail {

namespace {

/// Returns the option that converts fields, for Column::converted_by; empty if none does.
std::string conversion_of(TextColumn const& column) {
  return column.to_float || column.to_int ? column.to_float ? "to_float" : "to_int"
         : column.buckets > 0             ? "buckets"
         : column.if_empty                ? "if_empty"
                                          : "";
}

void check_column(TextColumn const& column) {
  bool const jagged = column.value_separator != '\0';
  require(!jagged || column.fields.size() <= 1,
          "column '{}' has a value_separator and {} fields; expected one field",
          column.name,
          column.fields.size());
  require_buckets(column.name, column.type, column.buckets, !column.transforms.empty());
  require(!column.if_empty || column.type != ColumnType::hashed,
          "column '{}' has if_empty; the key of an empty value of type hashed is string_key(\"\")",
          column.name);
  require_value_of(column.name, column.type, "if_empty", column.if_empty);
  require(!column.to_float || column.type == ColumnType::float32,
          "column '{}' has to_float, but values of type {}",
          column.name,
          to_string(column.type));
  require(!column.to_int || column.type != ColumnType::float32,
          "column '{}' has to_int, but values of type float32",
          column.name);
}

}  // namespace

MissingWords::MissingWords(std::vector<std::string> words) : words_(std::move(words)) {
  std::erase(words_, "");  // is missing anyway
  for (auto const& word : words_) {
    lengths_[static_cast<unsigned char>(word[0])] |= bit_of(word.size());
  }
}

Schema schema_of(TextOptions const& options) {
  require(options.header || !options.names.empty(),
          "the names of the fields are needed if files have no header");
  std::vector<Column> columns;
  for (auto const& column : options.columns) {
    check_column(column);
    auto const width =
        column.value_separator != '\0'
            ? kJagged
            : std::max<std::int64_t>(1, static_cast<std::int64_t>(column.fields.size()));
    columns.push_back({column.name,
                       column.type,
                       width,
                       column.transforms,
                       column.aligned_with,
                       conversion_of(column)});
  }
  return Schema(std::move(columns));
}

std::shared_ptr<TextPlan const> plan_of(std::string file,
                                        TextRules rules,
                                        std::shared_ptr<std::vector<TextColumn> const> columns,
                                        std::shared_ptr<MissingWords const> missing,
                                        std::vector<std::string> names,
                                        std::int64_t line) {
  auto plan = std::make_shared<TextPlan>();
  plan->file = std::move(file);
  plan->rules = rules;
  plan->columns = std::move(columns);
  plan->missing = std::move(missing);
  plan->names = std::move(names);
  for (std::size_t i = 0; i < plan->columns->size(); ++i) {
    auto const& column = (*plan->columns)[i];
    auto const& fields = column.fields.empty() ? std::vector{column.name} : column.fields;
    for (std::size_t slot = 0; slot < fields.size(); ++slot) {
      auto const found = std::ranges::find(plan->names, fields[slot]);
      auto const count = std::ranges::count(plan->names, fields[slot]);
      if (count != 1) {
        auto const message = fmt::format("column '{}': there {} named '{}'; the fields are {}",
                                         column.name,
                                         count == 0 ? "is no field" : "are several fields",
                                         fields[slot],
                                         fmt::join(plan->names, ", "));
        require(line > 0, "{}", message);
        throw DataError(fmt::format("{}:{}: {}", plan->file, line, message));
      }
      plan->uses.push_back(
          {static_cast<std::size_t>(found - plan->names.begin()),
           i,
           static_cast<std::int64_t>(slot),
           &column,
           plan->missing.get(),
           Remainder(static_cast<std::uint64_t>(std::max<std::int64_t>(1, column.buckets)))});
    }
  }
  std::ranges::stable_sort(plan->uses, {}, &FieldUse::field);
  return plan;
}

std::vector<std::string> fields_of(std::string_view record, TextRules const& rules) {
  std::vector<std::string> fields;
  auto const trimmed = [&](std::string_view value) {
    if (rules.trim_spaces) {
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      value = value.substr(0, value.find_last_not_of(' ') + 1);
    }
    return std::string(value);
  };
  if (rules.quotes) {
    for (auto const& value : split_record(record, *rules.quoting()).values) {
      fields.push_back(trimmed(value.text));
    }
    return fields;
  }
  while (true) {
    auto const end = std::min(record.find(rules.separator), record.size());
    fields.push_back(trimmed(record.substr(0, end)));
    if (end == record.size()) {
      return fields;
    }
    record.remove_prefix(end + 1);
  }
}

}  // namespace msstream::data::detail
