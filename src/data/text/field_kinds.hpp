// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/converted_by.hpp"
#include "data/text/text_numbers.hpp"
#include "data/text/text_plan.hpp"

#include <msstream/data/string_key.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace msstream::data::detail {

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

}  // namespace msstream::data::detail
