// SPDX-License-Identifier: Apache-2.0
#include "data/text/refused_fields.hpp"

#include "data/text/converted_by.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

namespace msstream::data::detail {

namespace {

/// Returns whether a text is a number that no T has, because it is too large.
template <class T>
bool is_beyond(std::string_view text) {
  bool const plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  text.remove_prefix(plus ? 1 : 0);
  T number{};
  auto const result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc::result_out_of_range && result.ptr == text.data() + text.size();
}

/// Calls function(text) for each value of a field: all of it, unless the column is jagged.
template <class Function>
void for_each_value(FieldUse const& use, std::string_view field, Function const& function) {
  field = use.missing->without(field);
  auto const separator = use.how->value_separator;
  for (std::size_t begin = 0; begin <= field.size();) {
    auto const after =
        separator == '\0' ? field.size() : std::min(field.find(separator, begin), field.size());
    function(use.missing->without(field.substr(begin, after - begin)));
    begin = after + 1;
  }
}

/// Returns the range of a column's numbers if a value of the field is a number beyond it; otherwise
/// an empty text.
std::string range_of(FieldUse const& use, std::string_view field) {
  auto const& how = *use.how;
  std::string range;
  if (how.to_float || how.to_int || how.type == ColumnType::hashed) {
    return range;
  }
  for_each_value(use, field, [&](std::string_view value) {
    if (how.type == ColumnType::int64) {
      using Limits = std::numeric_limits<std::int64_t>;
      range = is_beyond<std::int64_t>(value)
                  ? fmt::format(" from {} to {}", Limits::min(), Limits::max())
                  : range;
    } else if (how.transforms.empty()) {
      constexpr auto most = std::numeric_limits<float>::max();
      range = is_beyond<float>(value) ? fmt::format(" from {} to {}", -most, most) : range;
    } else {
      constexpr auto most = std::numeric_limits<double>::max();
      range = is_beyond<double>(value) ? fmt::format(" from {} to {}", -most, most) : range;
    }
  });
  return range;
}

std::string_view expected_of(TextColumn const& how) {
  if (!how.expected.empty()) {
    return how.expected;
  }
  switch (how.type) {
    case ColumnType::float32:
      return how.if_empty ? "a number or nothing" : "a number";
    case ColumnType::int64:
      return how.if_empty ? "an integer or nothing" : "an integer";
    case ColumnType::hashed:
      break;
  }
  return "another value";
}

/// Returns what the user's conversion of a field throws, by calling it again; empty if nothing.
std::string reason_of(FieldUse const& use, std::string_view value) {
  std::string reason;
  auto const convert = [&](auto const& own) {
    for_each_value(use, value, [&](std::string_view part) {
      if (own && reason.empty()) {
        static_cast<void>(converted_by(own, part, &reason));
      }
    });
  };
  use.how->type == ColumnType::float32 ? convert(use.how->to_float) : convert(use.how->to_int);
  return reason;
}

}  // namespace

void refuse_value(TextPlan const& plan,
                  std::int64_t line,
                  FieldUse const& use,
                  std::string_view value) {
  auto const reason = reason_of(use, value);
  throw DataError(fmt::format("{}:{}: column {} ({}): expected {}{}, found {}{}{}",
                              plan.file,
                              line,
                              use.field + 1,
                              plan.names[use.field],
                              expected_of(*use.how),
                              range_of(use, value),
                              shown(value),
                              reason.empty() ? "" : ": ",
                              reason));
}

void refuse_count(TextPlan const& plan, std::int64_t line, std::size_t found) {
  throw DataError(fmt::format(
      "{}:{}: expected {} columns, found {}", plan.file, line, plan.names.size(), found));
}

}  // namespace msstream::data::detail
