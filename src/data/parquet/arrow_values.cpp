// SPDX-License-Identifier: Apache-2.0
#include "data/parquet/arrow_values.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace msstream::data::detail {

namespace {

[[noreturn]] void refuse_type(ArrowPlace const& place, arrow::DataType const& type) {
  throw DataError(
      fmt::format("{}: column '{}': the field '{}' has values of type {}; expected {}{}",
                  place.file,
                  place.column.name,
                  place.field,
                  type.ToString(),
                  place.column.jagged ? "lists of " : "",
                  place.column.type == ColumnType::hashed    ? "strings"
                  : place.column.type == ColumnType::float32 ? "numbers"
                                                             : "integers"));
}

/// Returns the largest magnitude up to which a floating-point type has all whole numbers.
template <std::floating_point Number>
constexpr Number most_whole() {
  return static_cast<Number>(std::int64_t{1} << std::numeric_limits<Number>::digits);
}

/// Returns whether a column of values of type T takes a number.
template <class T, class Number>
bool takes(Number number, bool may_miss) {
  if constexpr (std::is_floating_point_v<Number> && std::is_integral_v<T>) {
    return std::abs(number) <= most_whole<Number>() && std::trunc(number) == number;
  } else if constexpr (std::is_floating_point_v<Number>) {
    constexpr auto most = static_cast<double>(std::numeric_limits<T>::max());
    return std::abs(static_cast<double>(number)) <= most || (may_miss && std::isnan(number));
  } else if constexpr (std::is_integral_v<T>) {
    return std::in_range<T>(number);
  } else {
    return true;
  }
}

/// The rows whose values are read, one after the other, and where the values go.
template <class T>
class ArrowSink {
 public:
  /// With a `row`, all values are those of this row; otherwise, each is that of the next one.
  ArrowSink(ArrowPlace const& place,
            T* out,
            std::size_t stride,
            std::optional<std::int64_t> row = std::nullopt)
      : place_(place),
        out_(out),
        stride_(stride),
        row_(row.value_or(0)),
        next_row_(row ? 0 : 1),
        may_miss_(fills_missing(place.column.transforms)) {}

  template <class Number>
  void put(Number number) {
    if constexpr (std::is_floating_point_v<Number> && std::is_integral_v<T>) {
      put_whole(number);
      return;
    } else {
      if constexpr (std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) {
        if (!takes<T>(number, may_miss_)) [[unlikely]] {
          refuse(fmt::format("the field '{}' is {}; expected {}",
                             place_.field,
                             number,
                             std::is_integral_v<T> ? "an int64" : "a finite float32"));
        }
      }
      put_value(static_cast<T>(number));
    }
  }
  void put_null() {
    if (place_.column.type == ColumnType::hashed) {
      put_key({});
      return;
    }
    if (!place_.column.if_null) {
      refuse(fmt::format("the field '{}' is null, and the column has no if_null", place_.field));
    }
    put_value(static_cast<T>(place_.column.if_null.value_or(0.0)));
  }
  void put_key(std::string_view text) {
    auto const key = string_key(text);
    if (place_.words != nullptr) {
      place_.words->try_emplace(key, text);
    }
    put_value(
        static_cast<T>(place_.column.buckets > 0 ? bucket_of(key, place_.column.buckets) : key));
  }
  [[nodiscard]] ArrowPlace const& place() const noexcept { return place_; }

 private:
  /// Puts a floating-point number into a column of integers. NaN is a null, as other programs write
  /// it among integers.
  template <std::floating_point Number>
  void put_whole(Number number) {
    if (std::isnan(number) && place_.column.if_null) {
      put_null();
      return;
    }
    bool const is_whole = takes<T>(number, false);
    if (!is_whole) [[unlikely]] {
      refuse(fmt::format("the field '{}' is {}; expected a whole number from -2^{} to 2^{}{}",
                         place_.field,
                         number,
                         std::numeric_limits<Number>::digits,
                         std::numeric_limits<Number>::digits,
                         std::isnan(number) ? ", or the option if_null" : ""));
    }
    put_value(is_whole ? static_cast<T>(number) : T{0});
  }
  void put_value(T value) {
    *out_ = value;
    out_ += stride_;
    row_ += next_row_;
  }
  void refuse(std::string const& error) {
    place_.bad_rows.try_emplace(row_, fmt::format("column '{}': {}", place_.column.name, error));
  }

  ArrowPlace const& place_;
  T* out_;
  std::size_t stride_;
  std::int64_t row_;
  std::int64_t next_row_;
  bool may_miss_;
};

template <class Array, class T>
void read_numbers(arrow::Array const& array,
                  std::int64_t begin,
                  std::int64_t end,
                  ArrowSink<T>& sink) {
  auto const& typed = static_cast<Array const&>(array);
  for (auto i = begin; i < end; ++i) {
    typed.IsNull(i) ? sink.put_null() : sink.put(typed.Value(i));
  }
}

template <class T>
void read_halves(arrow::Array const& array,
                 std::int64_t begin,
                 std::int64_t end,
                 ArrowSink<T>& sink) {
  auto const& typed = static_cast<arrow::HalfFloatArray const&>(array);
  for (auto i = begin; i < end; ++i) {
    typed.IsNull(i) ? sink.put_null() : sink.put(to_float(float16{typed.Value(i)}));
  }
}

template <class Array, class T>
void read_strings(arrow::Array const& array,
                  std::int64_t begin,
                  std::int64_t end,
                  ArrowSink<T>& sink) {
  auto const& typed = static_cast<Array const&>(array);
  for (auto i = begin; i < end; ++i) {
    typed.IsNull(i) ? sink.put_null() : sink.put_key(typed.GetView(i));
  }
}

template <class T>
void read_keys(arrow::Array const& array,
               std::int64_t begin,
               std::int64_t end,
               ArrowSink<T>& sink) {
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return read_strings<arrow::StringArray>(array, begin, end, sink);
    case arrow::Type::BINARY:
      return read_strings<arrow::BinaryArray>(array, begin, end, sink);
    case arrow::Type::LARGE_STRING:
      return read_strings<arrow::LargeStringArray>(array, begin, end, sink);
    case arrow::Type::LARGE_BINARY:
      return read_strings<arrow::LargeBinaryArray>(array, begin, end, sink);
    case arrow::Type::STRING_VIEW:
      return read_strings<arrow::StringViewArray>(array, begin, end, sink);
    case arrow::Type::BINARY_VIEW:
      return read_strings<arrow::BinaryViewArray>(array, begin, end, sink);
    case arrow::Type::DICTIONARY: {
      auto const& typed = static_cast<arrow::DictionaryArray const&>(array);
      for (auto i = begin; i < end; ++i) {
        if (typed.IsNull(i)) {
          sink.put_null();
        } else {
          auto const word = typed.GetValueIndex(i);
          read_keys(*typed.dictionary(), word, word + 1, sink);
        }
      }
      return;
    }
    default:
      refuse_type(sink.place(), *array.type());
  }
}

template <class T>
void read_values(arrow::Array const& array,
                 std::int64_t begin,
                 std::int64_t end,
                 ArrowSink<T>& sink) {
  if (array.type_id() == arrow::Type::NA) {  // a field that has nothing but nulls
    for (auto i = begin; i < end; ++i) {
      sink.put_null();
    }
    return;
  }
  if (sink.place().column.type == ColumnType::hashed) {
    return read_keys(array, begin, end, sink);
  }
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return read_numbers<arrow::BooleanArray>(array, begin, end, sink);
    case arrow::Type::INT8:
      return read_numbers<arrow::Int8Array>(array, begin, end, sink);
    case arrow::Type::UINT8:
      return read_numbers<arrow::UInt8Array>(array, begin, end, sink);
    case arrow::Type::INT16:
      return read_numbers<arrow::Int16Array>(array, begin, end, sink);
    case arrow::Type::UINT16:
      return read_numbers<arrow::UInt16Array>(array, begin, end, sink);
    case arrow::Type::INT32:
      return read_numbers<arrow::Int32Array>(array, begin, end, sink);
    case arrow::Type::UINT32:
      return read_numbers<arrow::UInt32Array>(array, begin, end, sink);
    case arrow::Type::INT64:
      return read_numbers<arrow::Int64Array>(array, begin, end, sink);
    case arrow::Type::UINT64:
      return read_numbers<arrow::UInt64Array>(array, begin, end, sink);
    case arrow::Type::DATE32:
      return read_numbers<arrow::Date32Array>(array, begin, end, sink);
    case arrow::Type::DATE64:
      return read_numbers<arrow::Date64Array>(array, begin, end, sink);
    case arrow::Type::TIMESTAMP:
      return read_numbers<arrow::TimestampArray>(array, begin, end, sink);
    case arrow::Type::HALF_FLOAT:
      if constexpr (std::is_floating_point_v<T>) {
        return read_halves(array, begin, end, sink);
      }
      break;
    case arrow::Type::FLOAT:
      return read_numbers<arrow::FloatArray>(array, begin, end, sink);
    case arrow::Type::DOUBLE:
      return read_numbers<arrow::DoubleArray>(array, begin, end, sink);
    default:
      break;
  }
  refuse_type(sink.place(), *array.type());
}

/// Appends the lists of one array to a jagged column.
template <class Array, class T>
void append_lists(ArrowPlace const& place,
                  arrow::Array const& array,
                  Values<T>& values,
                  Values<std::int64_t>& offsets) {
  auto const& lists = static_cast<Array const&>(array);
  for (std::int64_t row = 0; row < lists.length(); ++row) {
    if (!lists.IsNull(row)) {
      auto const begin = static_cast<std::int64_t>(lists.value_offset(row));
      auto const count = static_cast<std::int64_t>(lists.value_length(row));
      auto const before = values.size();
      values.resize(before + static_cast<std::size_t>(count));
      ArrowSink<T> sink(place, values.data() + before, 1, std::ssize(offsets) - 1);
      read_values(*lists.values(), begin, begin + count, sink);
    }
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
}

template <class T>
void append_jagged(ArrowPlace const& place,
                   arrow::Array const& array,
                   Values<T>& values,
                   Values<std::int64_t>& offsets) {
  switch (array.type_id()) {
    case arrow::Type::NA:
      offsets.resize(offsets.size() + static_cast<std::size_t>(array.length()), offsets.back());
      return;
    case arrow::Type::LIST:
      return append_lists<arrow::ListArray>(place, array, values, offsets);
    case arrow::Type::LARGE_LIST:
      return append_lists<arrow::LargeListArray>(place, array, values, offsets);
    case arrow::Type::FIXED_SIZE_LIST:
      return append_lists<arrow::FixedSizeListArray>(place, array, values, offsets);
    default:
      refuse_type(place, *array.type());
  }
}

}  // namespace

void require_arrow(arrow::Status const& status, std::string const& file) {
  if (!status.ok()) {
    throw DataError(fmt::format("{}: {}", file, status.message()));
  }
}

void append_arrow(ArrowPlace const& place,
                  arrow::ChunkedArray const& values,
                  std::size_t column,
                  std::size_t slot,
                  std::int64_t rows,
                  Chunk& chunk) {
  auto const append = [&](auto& all) {
    using T = typename std::remove_reference_t<decltype(all)>::value_type;
    if (place.column.jagged) {
      for (auto const& array : values.chunks()) {
        append_jagged(place, *array, all, chunk.offsets(column));
      }
      return;
    }
    auto const width = static_cast<std::size_t>(chunk.schema().columns()[column].width);
    all.resize(static_cast<std::size_t>(rows) * width);
    ArrowSink<T> sink(place, all.data() + slot, width);
    for (auto const& array : values.chunks()) {
      read_values(*array, 0, array->length(), sink);
    }
  };
  if (place.column.type != ColumnType::float32) {
    append(chunk.ints(column));
  } else if (place.column.transforms.empty()) {
    append(chunk.floats(column));
  } else {
    append(chunk.doubles(column));
  }
}

}  // namespace msstream::data::detail
