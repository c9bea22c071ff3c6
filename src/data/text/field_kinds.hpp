// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/converted_by.hpp"
#include "data/text/key_words.hpp"
#include "data/text/text_numbers.hpp"
#include "data/text/text_plan.hpp"

#include <msstream/data/string_key.hpp>

#include <algorithm>
#include <cstddef>
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

/// Converts fields to numbers of type T. A copy in a loop has what would otherwise be loaded again
/// after each store.
template <class T>
class PlainNumber {
 public:
  explicit PlainNumber(FieldUse const& use)
      : if_empty_(static_cast<T>(use.how->if_empty.value_or(0.0))),
        may_be_empty_(use.how->if_empty.has_value()) {}

  /// Converts a short field, near which eight bytes may be read on either side. Returns false for
  /// fields that the other function is for.
  [[gnu::always_inline]] bool fast(char const* begin, char const* end, T& value) const {
    return fast_number(begin, end, may_be_empty_, if_empty_, value);
  }
  /// Returns whether the field can be converted.
  bool operator()(std::string_view text, TextMemory memory, T& value) const {
    return to_number<T>(text, memory, may_be_empty_ ? &if_empty_ : nullptr, value);
  }

 private:
  T if_empty_;
  bool may_be_empty_;
};

/// Converts fields to keys. `kReduced` says whether keys become rows of a table.
template <bool kReduced>
class PlainKey {
 public:
  explicit PlainKey(FieldUse const& use)
      : buckets_(use.how->buckets), row_of_(kReduced ? &use.row_of : nullptr) {}

  bool operator()(std::string_view text, TextMemory memory, std::int64_t& value) const {
    auto const key = fast_string_key(text, memory);
    value = kReduced ? bucket_of(key, buckets_) : key;
    return true;
  }
  /// Turns words of key_word() into keys, or into rows of a table.
  void finish(std::uint64_t* words, std::size_t count) const { finish_keys(words, count, row_of_); }

 private:
  std::int64_t buckets_;
  Remainder const* row_of_;
};

/// The conversions of fields to values of type float. They return whether the field can be
/// converted.
struct FloatField {
  using Value = float;
  using Plain = PlainNumber<float>;
  static constexpr bool kIsKey = false;

  static bool own(TextColumn const& how, std::string_view text, float& value) {
    return write_own(how.to_float, text, value);
  }
  static bool is_own(TextColumn const& how) { return how.to_float != nullptr; }
  static Values<float>& values(Chunk& chunk, std::size_t column) { return chunk.floats(column); }
};

/// The conversions of fields to values of which transforms make those of the column.
struct DoubleField {
  using Value = double;
  using Plain = PlainNumber<double>;
  static constexpr bool kIsKey = false;

  static bool own(TextColumn const&, std::string_view, double&) { return false; }
  static bool is_own(TextColumn const&) { return false; }
  static Values<double>& values(Chunk& chunk, std::size_t column) { return chunk.doubles(column); }
};

struct IntField {
  using Value = std::int64_t;
  using Plain = PlainNumber<std::int64_t>;
  static constexpr bool kIsKey = false;

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
  using Plain = PlainKey<kReduced>;
  static constexpr bool kIsKey = true;

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
  return Kind::is_own(how) ? Kind::own(how, text, value)
                           : typename Kind::Plain(use)(text, memory, value);
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
