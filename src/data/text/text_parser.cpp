// SPDX-License-Identifier: Apache-2.0
#include "data/text/field_kinds.hpp"
#include "data/text/refused_fields.hpp"
#include "data/text/text_index.hpp"
#include "data/text/text_plan.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msstream::data::detail {

namespace {

std::string_view trimmed(std::string_view value) {
  auto const begin = value.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    return {};
  }
  return value.substr(begin, value.find_last_not_of(' ') - begin + 1);
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
  static constexpr std::size_t kRows = 64;  ///< whose text is in the first-level cache

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
    bool const wide = std::endian::native == std::endian::little &&
                      index_.begin_of(index_.rows[begin], use.field) >= 8 &&
                      index_.end_of(index_.rows[end - 1], use.field) + 8 <= text_.lines.size();
    return parse_fields<Kind>(use, begin, end, wide, out, width);
  }

  /// The loops in which most time is spent. They call nothing, and refer to nothing that the
  /// compiler would have to load again after each store. Fields that are not short are left to
  /// another loop.
  template <class Kind>
  bool parse_fields(FieldUse const& use,
                    std::size_t begin,
                    std::size_t end,
                    bool wide,
                    typename Kind::Value* out,
                    std::size_t width) {
    typename Kind::Plain const convert(use);
    TextIndex::Row const* const rows = index_.rows.data() + begin;
    std::uint32_t const* const bounds = index_.bounds.data() + use.field;
    char const* const text = memory_.begin;
    auto const count = end - begin;
    out += begin * width;
    static_assert(kRows == 64, "a bit for each row");
    auto rest = ~std::uint64_t{0} >> (64 - count);
    if (wide) {
      rest = 0;
      std::uint64_t words[kRows];  // of keys
      for (std::size_t row = 0; row < count; ++row) {
        auto const* const bound = bounds + rows[row].first;
        auto const first = static_cast<std::uint32_t>(bound[0] + 1U);
        bool done = false;
        if constexpr (Kind::kIsKey) {
          auto const bytes = static_cast<std::uint32_t>(bound[1] - first);
          words[row] = key_word(text + first, bytes);
          done = bytes <= 8;
        } else {
          typename Kind::Value converted;
          done = convert.fast(text + first, text + bound[1], converted);
          out[row * width] = converted;
        }
        rest |= static_cast<std::uint64_t>(!done) << row;
      }
      if constexpr (Kind::kIsKey) {
        convert.finish(words, count);
        for (std::size_t row = 0; row < count; ++row) {
          out[row * width] = static_cast<std::int64_t>(words[row]);
        }
      }
    }
    bool good = true;
    for (; rest != 0; rest &= rest - 1) {
      auto const row = static_cast<std::size_t>(std::countr_zero(rest));
      auto const* const bound = bounds + rows[row].first;
      auto const first = static_cast<std::uint32_t>(bound[0] + 1U);
      good &= convert({text + first, bound[1] - first}, memory_, out[row * width]);
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
