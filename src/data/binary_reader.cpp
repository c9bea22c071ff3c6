// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
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

std::size_t bytes_of(Stored stored) {
  return stored == Stored::int64 ? sizeof(std::int64_t) : sizeof(std::int32_t);
}

Schema schema_of_binary(std::vector<BinaryColumn> const& columns) {
  std::vector<Column> found;
  for (auto const& column : columns) {
    require((column.width == kJagged) == !column.offsets.empty(),
            "column '{}' has a width of {} and {} file of offsets; expected one if it is jagged",
            column.name,
            column.width,
            column.offsets.empty() ? "no" : "a");
    auto const type = column.stored == Stored::float32 ? ColumnType::float32 : ColumnType::int64;
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
    auto const size = static_cast<std::size_t>(count);
    if (from.stored == Stored::float32) {
      chunk.floats(column).resize(size);
      from.values.read(first, count, chunk.floats(column).data());
    } else if (from.stored == Stored::int64) {
      chunk.ints(column).resize(size);
      from.values.read(first, count, chunk.ints(column).data());
    } else {
      std::vector<std::int32_t> narrow(size);
      from.values.read(first, count, narrow.data());
      chunk.ints(column).assign(narrow.begin(), narrow.end());
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
  auto const count = std::min(chunk_rows_, files_->rows - row_);
  if (count == 0) {
    return {};
  }
  auto const first = std::exchange(row_, row_ + count);
  return [files = files_, first, count](Chunk& chunk) { files->read(first, count, chunk); };
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
