// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_index.hpp"
#include "data/text/text_numbers.hpp"
#include "data/text/text_plan.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace msstream::data::detail {

namespace {

std::string_view trimmed(std::string_view value) {
  auto const begin = value.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    return {};
  }
  return value.substr(begin, value.find_last_not_of(' ') - begin + 1);
}

/// Returns what a user's conversion makes of a text; null if it returns or throws that it cannot
/// convert it. Writes what it throws to `reason`, unless that is null.
template <class Convert>
auto converted_by(Convert const& convert, std::string_view text, std::string* reason) {
  try {
    return convert(text);
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const& error) {
    if (reason != nullptr) {
      *reason = error.what();
    }
  }
  return decltype(convert(text))();
}

/// Writes what a user's conversion returns, and returns whether it returned a value.
template <class T, class Convert>
bool write_own(Convert const& convert, std::string_view text, T& value) {
  auto const converted = converted_by(convert, text, nullptr);
  value = converted.value_or(T{});
  return converted.has_value();
}

/// The conversions of fields to values of type float. They return whether the field can be
/// converted.
struct FloatField {
  using Value = float;

  template <class Memory>
  static bool plain(TextColumn const& how, std::string_view text, Memory memory, float& value) {
    auto const if_empty = static_cast<float>(how.if_empty.value_or(0.0));
    return to_number<float>(text, memory, how.if_empty ? &if_empty : nullptr, value);
  }
  static bool own(TextColumn const& how, std::string_view text, float& value) {
    return write_own(how.to_float, text, value);
  }
  static bool is_own(TextColumn const& how) { return how.to_float != nullptr; }
  static Values<float>& values(Chunk& chunk, std::size_t column) { return chunk.floats(column); }
};

/// The conversions of fields to values of which transforms make those of the column.
struct DoubleField {
  using Value = double;

  template <class Memory>
  static bool plain(TextColumn const& how, std::string_view text, Memory memory, double& value) {
    return to_number<double>(text, memory, how.if_empty ? &*how.if_empty : nullptr, value);
  }
  static bool own(TextColumn const&, std::string_view, double&) { return false; }
  static bool is_own(TextColumn const&) { return false; }
  static Values<double>& values(Chunk& chunk, std::size_t column) { return chunk.doubles(column); }
};

struct IntField {
  using Value = std::int64_t;

  template <class Memory>
  static bool plain(TextColumn const& how,
                    std::string_view text,
                    Memory memory,
                    std::int64_t& value) {
    auto const if_empty = static_cast<std::int64_t>(how.if_empty.value_or(0.0));
    return to_number<std::int64_t>(text, memory, how.if_empty ? &if_empty : nullptr, value);
  }
  static bool own(TextColumn const& how, std::string_view text, std::int64_t& value) {
    return write_own(how.to_int, text, value);
  }
  static bool is_own(TextColumn const& how) { return how.to_int != nullptr; }
  static Values<std::int64_t>& values(Chunk& chunk, std::size_t column) {
    return chunk.ints(column);
  }
};

/// The conversions of fields to keys. `kReduced` says whether keys become rows of a table.
template <bool kReduced>
struct KeyField : IntField {
  template <class Memory>
  static bool plain(TextColumn const& how,
                    std::string_view text,
                    Memory memory,
                    std::int64_t& value) {
    auto const key = fast_string_key(text, memory);
    value = kReduced ? bucket_of(key, how.buckets) : key;
    return true;
  }
  static bool own(TextColumn const& how, std::string_view text, std::int64_t& value) {
    bool const good = write_own(how.to_int, text, value);
    value = kReduced ? bucket_of(value, how.buckets) : value;
    return good;
  }
};

/// Converts a field, an empty one if it is a word for a missing value, by the user's conversion if
/// there is one.
template <class Kind>
bool convert_field(FieldUse const& use,
                   std::string_view text,
                   TextMemory memory,
                   typename Kind::Value& value) {
  auto const& how = *use.how;
  text = use.missing->without(text);
  return Kind::is_own(how) ? Kind::own(how, text, value) : Kind::plain(how, text, memory, value);
}

/// Calls `function` with the conversion of the column's type.
template <class Function>
decltype(auto) with_field_kind(TextColumn const& how, Function&& function) {
  switch (how.type) {
    case ColumnType::float32:
      return how.transforms.empty() || how.to_float ? function(FloatField())
                                                    : function(DoubleField());
    case ColumnType::int64:
      return function(IntField());
    case ColumnType::hashed:
      break;
  }
  return how.buckets > 0 ? function(KeyField<true>()) : function(KeyField<false>());
}

/// Appends the values of a field of a jagged column; returns whether all could be converted.
template <class Kind>
bool append_values(FieldUse const& use,
                   std::string_view text,
                   TextMemory memory,
                   Values<typename Kind::Value>& values) {
  text = use.missing->without(text);
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    auto const after = std::min(text.find(use.how->value_separator, begin), text.size());
    typename Kind::Value value{};
    if (!convert_field<Kind>(use, text.substr(begin, after - begin), memory, value)) {
      return false;
    }
    values.push_back(value);
    begin = after + 1;
  }
  return true;
}

/// Adds the strings of a field to those that the chunk keeps for the column.
void keep_words(Chunk::Words& words, FieldUse const& use, std::string_view text) {
  text = use.missing->without(text);
  if (use.how->value_separator == '\0') {
    words.try_emplace(string_key(text), text);
    return;
  }
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    auto const after = std::min(text.find(use.how->value_separator, begin), text.size());
    auto const value = use.missing->without(text.substr(begin, after - begin));
    words.try_emplace(string_key(value), value);
    begin = after + 1;
  }
}

/// Returns where to keep the strings of a column; null unless they are kept, and are the column's.
Chunk::Words* words_of(Chunk& chunk, FieldUse const& use) {
  return use.how->to_int ? nullptr : chunk.words(use.column);
}

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

[[noreturn]] void refuse_value(TextPlan const& plan,
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

[[noreturn]] void refuse_count(TextPlan const& plan, std::int64_t line, std::size_t found) {
  throw DataError(fmt::format(
      "{}:{}: expected {} columns, found {}", plan.file, line, plan.names.size(), found));
}

/// Parses a text that has no quotes, a block of rows at a time and in it column by column: so each
/// loop has one kind of field, whose branches are easy to predict.
class PlainText {
 public:
  PlainText(TextPlan const& plan, LineChunk const& text, Chunk& chunk, TextIndex& index)
      : plan_(plan),
        text_(text),
        chunk_(chunk),
        index_(index),
        memory_{text.lines.data(), text.lines.data() + text.lines.size()} {
    index_.find(text_.lines, plan_.rules.separator);
  }

  void parse() {
    auto const& rows = index_.rows;
    auto const regular = static_cast<std::size_t>(
        std::ranges::find_if(rows,
                             [&](TextIndex::Row row) { return row.fields != plan_.names.size(); }) -
        rows.begin());
    for (std::size_t i = 0; i < plan_.columns->size(); ++i) {
      auto const& column = chunk_.schema().columns()[i];
      auto const count = regular * static_cast<std::size_t>(column.width);
      with_field_kind((*plan_.columns)[i],
                      [&](auto kind) { decltype(kind)::values(chunk_, i).resize(count); });
    }
    constexpr std::size_t kRows = 64;  // whose text is in the first-level cache
    for (std::size_t begin = 0; begin < regular; begin += kRows) {
      auto const end = std::min(begin + kRows, regular);
      bool good = true;
      for (auto const& use : plan_.uses) {
        good = with_field_kind(*use.how,
                               [&](auto kind) { return parse_block(kind, use, begin, end); }) &&
               good;
      }
      if (!good) {
        refuse_first(begin, end);
      }
    }
    if (regular < rows.size()) {
      refuse_count(plan_, line_of(rows[regular]), rows[regular].fields);
    }
  }

 private:
  [[nodiscard]] std::string_view field(TextIndex::Row row, std::size_t number) const {
    auto const begin = index_.begin_of(row, number);
    return {text_.lines.data() + begin, index_.end_of(row, number) - begin};
  }
  /// Returns the field without what does not belong to its value: the CR of its line's end, and
  /// spaces.
  [[nodiscard]] std::string_view value(TextIndex::Row row, std::size_t number) const {
    auto text = field(row, number);
    if (number + 1 == row.fields && text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    return plan_.rules.trim_spaces ? trimmed(text) : text;
  }

  template <class Kind>
  bool parse_block(Kind, FieldUse const& use, std::size_t begin, std::size_t end) {
    if (auto* const words = words_of(chunk_, use)) {
      for (std::size_t row = begin; row < end; ++row) {
        keep_words(*words, use, value(index_.rows[row], use.field));
      }
    }
    if (use.how->value_separator != '\0') {
      return parse_jagged<Kind>(use, begin, end);
    }
    bool const whole =
        !plan_.rules.trim_spaces && use.field + 1 != plan_.names.size() && use.missing->is_empty();
    auto const width = static_cast<std::size_t>(chunk_.schema().columns()[use.column].width);
    auto* const out = Kind::values(chunk_, use.column).data() + static_cast<std::size_t>(use.slot);
    bool good = true;
    if (Kind::is_own(*use.how) || !whole) {
      for (std::size_t row = begin; row < end; ++row) {
        good &=
            convert_field<Kind>(use, value(index_.rows[row], use.field), memory_, out[row * width]);
      }
      return good;
    }
    // The first and the last bytes of the text are not within words that may be read as a whole.
    bool const wide = index_.begin_of(index_.rows[begin], use.field) >= 8 &&
                      index_.end_of(index_.rows[end - 1], use.field) + 8 <= text_.lines.size();
    return wide ? parse_fields<Kind>(
                      use, begin, end, WideMemory{memory_.begin, memory_.end}, out, width)
                : parse_fields<Kind>(use, begin, end, memory_, out, width);
  }

  /// The loop in which most time is spent. It refers to nothing that the compiler would have to
  /// load again after each store.
  template <class Kind, class Memory>
  bool parse_fields(FieldUse const& use,
                    std::size_t begin,
                    std::size_t end,
                    Memory memory,
                    typename Kind::Value* out,
                    std::size_t width) {
    TextColumn const& how = *use.how;
    TextIndex::Row const* const rows = index_.rows.data();
    std::uint32_t const* const bounds = index_.bounds.data() + use.field;
    bool good = true;
    out += begin * width;
    for (std::size_t row = begin; row < end; ++row, out += width) {
      auto const* const bound = bounds + rows[row].first;
      auto const first = static_cast<std::uint32_t>(bound[0] + 1U);
      typename Kind::Value converted;
      good &= Kind::plain(how, {memory.begin + first, bound[1] - first}, memory, converted);
      *out = converted;
    }
    return good;
  }

  template <class Kind>
  bool parse_jagged(FieldUse const& use, std::size_t begin, std::size_t end) {
    auto& values = Kind::values(chunk_, use.column);
    auto& offsets = chunk_.offsets(use.column);
    for (std::size_t row = begin; row < end; ++row) {
      if (!append_values<Kind>(use, value(index_.rows[row], use.field), memory_, values)) {
        return false;
      }
      offsets.push_back(static_cast<std::int64_t>(values.size()));
    }
    return true;
  }

  /// Throws the error of the first row of a block that has one.
  void refuse_first(std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      for (auto const& use : plan_.uses) {
        auto const text = value(index_.rows[row], use.field);
        bool const good = with_field_kind(*use.how, [&](auto kind) {
          using Kind = decltype(kind);
          if (use.how->value_separator != '\0') {
            Values<typename Kind::Value> values;
            return append_values<Kind>(use, text, memory_, values);
          }
          typename Kind::Value converted{};
          return convert_field<Kind>(use, text, memory_, converted);
        });
        if (!good) {
          refuse_value(plan_, line_of(index_.rows[row]), use, text);
        }
      }
    }
  }

  [[nodiscard]] std::int64_t line_of(TextIndex::Row row) const {
    auto const before = std::string_view(text_.lines).substr(0, index_.begin_of(row, 0));
    return text_.first_line + std::ranges::count(before, '\n');
  }

  TextPlan const& plan_;
  LineChunk const& text_;
  Chunk& chunk_;
  TextIndex& index_;
  TextMemory memory_;
};

/// Appends the value of a field to a column, whose other values in the row may be missing yet.
template <class Kind>
bool append_field(FieldUse const& use, std::string_view text, Chunk& chunk, std::size_t row) {
  auto& values = Kind::values(chunk, use.column);
  TextMemory const memory{text.data(), text.data() + text.size()};
  if (auto* const words = words_of(chunk, use)) {
    keep_words(*words, use, text);
  }
  if (use.how->value_separator != '\0') {
    bool const good = append_values<Kind>(use, text, memory, values);
    chunk.offsets(use.column).push_back(static_cast<std::int64_t>(values.size()));
    return good;
  }
  auto const width = static_cast<std::size_t>(chunk.schema().columns()[use.column].width);
  values.resize((row + 1) * width);
  return convert_field<Kind>(
      use, text, memory, values[row * width + static_cast<std::size_t>(use.slot)]);
}

/// Parses a text that has quotes, one record after the other.
void parse_quoted_rows(TextPlan const& plan, LineChunk const& text, Chunk& chunk) {
  std::string_view lines = text.lines;
  std::int64_t line = text.first_line;
  std::size_t row = 0;
  while (!lines.empty()) {
    auto const before = lines;
    auto const record = take_record(lines, plan.rules.quoting());
    if (!record.empty()) {
      auto const [values, bad] = split_record(record, plan.rules.quoting().value());
      if (bad) {
        throw DataError(fmt::format(
            "{}:{}: column {}: expected '{}' or the end of the line behind the quoted value {}",
            plan.file,
            line + values[*bad].line,
            *bad + 1,
            plan.rules.separator,
            shown(values[*bad].text)));
      }
      if (values.size() != plan.names.size()) {
        refuse_count(plan, line, values.size());
      }
      for (auto const& use : plan.uses) {
        std::string_view value = values[use.field].text;
        value = plan.rules.trim_spaces ? trimmed(value) : value;
        if (!with_field_kind(*use.how, [&](auto kind) {
              return append_field<decltype(kind)>(use, value, chunk, row);
            })) {
          refuse_value(plan, line + values[use.field].line, use, value);
        }
      }
      ++row;
    }
    line += std::ranges::count(before.substr(0, before.size() - lines.size()), '\n');
  }
}

}  // namespace

void parse_rows(TextPlan const& plan, LineChunk const& text, Chunk& chunk) {
  if (plan.rules.quotes && text.lines.find('"') != std::string::npos) {
    parse_quoted_rows(plan, text, chunk);
    return;
  }
  static thread_local TextIndex index;  // keeps its memory from chunk to chunk
  PlainText(plan, text, chunk, index).parse();
}

}  // namespace msstream::data::detail
