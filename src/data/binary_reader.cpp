// SPDX-License-Identifier: Apache-2.0
#include "data/source_of_rows.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace msstream::data {

namespace detail {

/// A file that several threads read at once.
class SharedFile {
 public:
  explicit SharedFile(std::filesystem::path const& path)
      : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw DataError(fmt::format("{}: cannot open: {}", name_, reason()));
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw DataError(fmt::format("{}: expected a regular file", name_));
    }
    bytes_ = status.st_size;
  }
  SharedFile(SharedFile const&) = delete;
  SharedFile& operator=(SharedFile const&) = delete;
  ~SharedFile() { ::close(descriptor_); }

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  /// Returns the number of values in the file. Throws DataError if it ends inside one, or begins
  /// with the header of a .npy file.
  [[nodiscard]] std::int64_t count(std::size_t value_bytes) const {
    constexpr std::string_view kNumpy = "\x93NUMPY";
    if (bytes_ >= static_cast<std::int64_t>(kNumpy.size())) {
      std::string first(kNumpy.size(), '\0');
      read(0, static_cast<std::int64_t>(first.size()), first.data());
      if (first == kNumpy) {
        throw DataError(fmt::format(
            "{}: is a .npy file; expected values without a header, as array.tofile() writes them",
            name_));
      }
    }
    auto const each = static_cast<std::int64_t>(value_bytes);
    if (bytes_ % each != 0) {
      throw DataError(
          fmt::format("{}: has {} bytes; expected a multiple of {}, the bytes of a value",
                      name_,
                      bytes_,
                      each));
    }
    return bytes_ / each;
  }

  template <class T>
  void read(std::int64_t first, std::int64_t count, T* out) const {
    auto* bytes = reinterpret_cast<char*>(out);
    auto left = static_cast<std::size_t>(count) * sizeof(T);
    auto at = first * static_cast<std::int64_t>(sizeof(T));
    while (left > 0) {
      auto const taken = ::pread(descriptor_, bytes, left, at);
      if (taken == 0) {
        throw DataError(fmt::format("{}: became shorter while it was read", name_));
      }
      if (taken < 0 && errno != EINTR) {
        throw DataError(fmt::format("{}: cannot read: {}", name_, reason()));
      }
      auto const good = std::max<ssize_t>(taken, 0);
      bytes += good;
      at += good;
      left -= static_cast<std::size_t>(good);
    }
  }

 private:
  static std::string reason() { return std::generic_category().message(errno); }

  std::string name_;
  int descriptor_;
  std::int64_t bytes_ = 0;
};

}  // namespace detail

namespace {

using Stored = BinaryColumn::Stored;

/// Calls `function` with a value of the type that is stored.
template <class Function>
decltype(auto) with_stored(Stored stored, Function&& function) {
  switch (stored) {
    case Stored::float32:
      return function(float());
    case Stored::float64:
      return function(double());
    case Stored::int8:
      return function(std::int8_t());
    case Stored::uint8:
      return function(std::uint8_t());
    case Stored::int16:
      return function(std::int16_t());
    case Stored::uint16:
      return function(std::uint16_t());
    case Stored::int32:
      return function(std::int32_t());
    case Stored::uint32:
      return function(std::uint32_t());
    case Stored::int64:
      break;
  }
  return function(std::int64_t());
}

std::size_t bytes_of(Stored stored) {
  return with_stored(stored, [](auto value) { return sizeof(value); });
}

/// Returns the index of the first number that a column does not take; the number of numbers if it
/// takes all.
template <class T>
std::size_t first_refused(Column const& column, Values<T> const& numbers) {
  bool const rounded = column.transforms.empty();
  auto const most =
      rounded ? static_cast<T>(std::numeric_limits<float>::max()) : std::numeric_limits<T>::max();
  bool good = true;
  for (auto const number : numbers) {  // without a branch, so that the compiler vectorises it
    good &= std::abs(number) <= most;
  }
  if (good) {
    return numbers.size();
  }
  bool const may_miss = fills_missing(column.transforms);
  auto const found = std::ranges::find_if(
      numbers, [&](T number) { return std::isnan(number) ? !may_miss : std::abs(number) > most; });
  return static_cast<std::size_t>(found - numbers.begin());
}

Schema schema_of_binary(std::vector<BinaryColumn> const& columns) {
  std::vector<Column> found;
  for (auto const& column : columns) {
    require((column.width == kJagged) == !column.offsets.empty(),
            "column '{}' has a width of {} and {} file of offsets; expected one if it is jagged",
            column.name,
            column.width,
            column.offsets.empty() ? "no" : "a");
    bool const is_float = with_stored(
        column.stored, [](auto value) { return std::is_floating_point_v<decltype(value)>; });
    auto const type = is_float ? ColumnType::float32 : ColumnType::int64;
    found.push_back({column.name, type, column.width, column.transforms});
  }
  return Schema(std::move(found));
}

}  // namespace

/// The files of all columns. Immutable, so that tasks share them.
struct BinaryReader::Files {
  struct OneColumn {
    explicit OneColumn(BinaryColumn const& column)
        : values(column.path),
          value_count(values.count(bytes_of(column.stored))),
          stored(column.stored) {}

    detail::SharedFile values;
    std::int64_t value_count;
    Stored stored;
    std::optional<detail::SharedFile> offsets;
  };

  explicit Files(std::vector<BinaryColumn> const& columns) : schema(schema_of_binary(columns)) {
    for (auto const& column : columns) {
      auto& opened = opened_columns.emplace_back(std::make_unique<OneColumn>(column));
      auto found = opened->value_count / std::max<std::int64_t>(1, column.width);
      if (column.width == kJagged) {
        opened->offsets.emplace(column.offsets);
        found = opened->offsets->count(sizeof(std::int64_t)) - 1;
      } else if (opened->value_count % column.width != 0) {
        throw DataError(
            fmt::format("{}: has {} values; expected a multiple of {}, the values of a row",
                        opened->values.name(),
                        opened->value_count,
                        column.width));
      }
      auto const& counted = opened->offsets ? *opened->offsets : opened->values;
      if (rows >= 0 && found != rows) {
        throw DataError(fmt::format("{}: has {} rows; {} has {}",
                                    counted.name(),
                                    found,
                                    opened_columns.front()->values.name(),
                                    rows));
      }
      if (found < 0) {
        throw DataError(fmt::format("{}: expected at least one offset", counted.name()));
      }
      rows = found;
      if (opened->offsets) {
        std::int64_t last = 0;
        opened->offsets->read(found, 1, &last);
        if (last != opened->value_count) {
          throw DataError(fmt::format("{}: ends with {}; expected {}, the number of values in {}",
                                      opened->offsets->name(),
                                      last,
                                      opened->value_count,
                                      opened->values.name()));
        }
      }
    }
  }

  /// Appends values to the column of a chunk.
  void read_values(OneColumn const& from,
                   std::int64_t first,
                   std::int64_t count,
                   Chunk& chunk,
                   std::size_t column) const {
    with_stored(from.stored, [&](auto kind) {
      using T = decltype(kind);
      Values<T> values(static_cast<std::size_t>(count));
      from.values.read(first, count, values.data());
      if constexpr (std::is_floating_point_v<T>) {
        check_numbers(from, first, values, column);
      }
      if constexpr (std::is_same_v<T, double>) {
        schema.columns()[column].transforms.empty() ? give(values, chunk.floats(column))
                                                    : give(values, chunk.doubles(column));
      } else if constexpr (std::is_same_v<T, float>) {
        give(values, chunk.floats(column));
      } else {
        give(values, chunk.ints(column));
      }
    });
  }

  template <class From, class To>
  static void give(Values<From>& from, Values<To>& to) {
    if constexpr (std::is_same_v<From, To>) {
      to = std::move(from);
    } else {
      to.resize(from.size());
      std::ranges::transform(from, to.begin(), [](From value) { return static_cast<To>(value); });
    }
  }

  /// Throws DataError for a number that the column does not take.
  template <class T>
  void check_numbers(OneColumn const& from,
                     std::int64_t first,
                     Values<T> const& numbers,
                     std::size_t column) const {
    auto const& found = schema.columns()[column];
    auto const index = first_refused(found, numbers);
    if (index < numbers.size()) {
      auto const number = first + static_cast<std::int64_t>(index);
      throw DataError(fmt::format("{}: column '{}': {} {} is {}; expected a finite float32",
                                  from.values.name(),
                                  found.name,
                                  found.is_jagged() ? "value" : "row",
                                  found.is_jagged() ? number : number / found.width,
                                  numbers[index]));
    }
  }

  void read(std::int64_t first, std::int64_t count, Chunk& chunk) const {
    for (std::size_t i = 0; i < opened_columns.size(); ++i) {
      auto const& from = *opened_columns[i];
      if (!from.offsets) {
        auto const width = schema.columns()[i].width;
        read_values(from, first * width, count * width, chunk, i);
        continue;
      }
      auto& offsets = chunk.offsets(i);
      offsets.resize(static_cast<std::size_t>(count) + 1);
      from.offsets->read(first, count + 1, offsets.data());
      auto const begin = offsets.front();
      bool good = begin >= 0 && offsets.back() <= from.value_count && (first > 0 || begin == 0);
      good = good && std::ranges::is_sorted(offsets);
      if (!good) {
        throw DataError(
            fmt::format("{}: the offsets of rows {} to {} do not ascend from 0 to the {} values",
                        from.offsets->name(),
                        first,
                        first + count - 1,
                        from.value_count));
      }
      read_values(from, begin, offsets.back() - begin, chunk, i);
      for (auto& offset : offsets) {
        offset -= begin;
      }
    }
  }

  Schema schema;
  std::vector<std::unique_ptr<OneColumn>> opened_columns;
  std::int64_t rows = -1;
};

BinaryReader::BinaryReader(std::vector<BinaryColumn> columns, Options const& options)
    : files_(std::make_shared<Files>(columns)), chunk_rows_(options.chunk_rows) {
  require(chunk_rows_ >= 1, "BinaryReader: chunk_rows is {}; expected at least 1", chunk_rows_);
}

BinaryReader::~BinaryReader() = default;

std::int64_t BinaryReader::rows() const noexcept {
  return files_->rows;
}

Schema const& BinaryReader::schema() const {
  return files_->schema;
}

Reader::Task BinaryReader::next_task() {
  auto counted = next_counted_task();
  return counted ? std::move(counted->task) : Task();
}

std::optional<Reader::CountedTask> BinaryReader::next_counted_task() {
  auto const count = std::min(chunk_rows_, files_->rows - row_);
  if (count == 0) {
    return std::nullopt;
  }
  auto const first = std::exchange(row_, row_ + count);
  return CountedTask{
      [files = files_, first, count](Chunk& chunk) { files->read(first, count, chunk); }, count};
}

std::string BinaryReader::file_name(std::int64_t) const {
  return files_->opened_columns.front()->values.name();
}

Reader::Source BinaryReader::source() const {
  detail::SourceOfRows source;
  for (auto const& column : files_->opened_columns) {
    source.add_file(column->values.name());
    source.add_options(static_cast<int>(column->stored));
    if (column->offsets) {
      source.add_file(column->offsets->name());
    }
  }
  return source.source();
}

bool BinaryReader::next(Chunk& chunk) {
  auto const task = next_task();
  if (!task) {
    return false;
  }
  task(chunk);
  return true;
}

Reader::Position BinaryReader::position() const {
  return {.offset = row_};
}

void BinaryReader::seek(Position const& position) {
  require(position.offset >= 0 && position.offset <= files_->rows,
          "position: row {} of {}",
          position.offset,
          files_->rows);
  row_ = position.offset;
}

}  // namespace msstream::data
