// SPDX-License-Identifier: Apache-2.0
// Part of the library msstream_parquet, which is built only with Arrow.
#include "data/bad_row_log.hpp"
#include "data/chunk_access.hpp"
#include "data/keep_rows.hpp"
#include "data/next_rows.hpp"
#include "data/parquet/arrow_values.hpp"
#include "data/source_of_rows.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/parquet_reader.hpp>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace msstream::data {

namespace {

Schema schema_of_parquet(std::vector<ParquetColumn> const& columns) {
  std::vector<Column> found;
  for (auto const& column : columns) {
    require(!column.jagged || column.fields.size() <= 1,
            "column '{}' is jagged and has {} fields; expected one field",
            column.name,
            column.fields.size());
    detail::require_buckets(column.name, column.type, column.buckets, !column.transforms.empty());
    require(!column.if_null || column.type != ColumnType::hashed,
            "column '{}' has if_null; the key of a null of type hashed is string_key(\"\")",
            column.name);
    detail::require_value_of(column.name, column.type, "if_null", column.if_null);
    auto const width =
        column.jagged ? kJagged
                      : std::max<std::int64_t>(1, static_cast<std::int64_t>(column.fields.size()));
    found.push_back({column.name,
                     column.type,
                     width,
                     column.transforms,
                     column.aligned_with,
                     column.buckets > 0 ? "buckets"
                     : column.if_null   ? "if_null"
                                        : ""});
  }
  return Schema(std::move(found));
}

std::vector<std::string> fields_of_parquet(ParquetColumn const& column) {
  return column.fields.empty() ? std::vector{column.name} : column.fields;
}

using Metadata = std::shared_ptr<parquet::FileMetaData>;

/// A file that is open. Not thread-safe: each task opens its own, with the metadata of the file, so
/// that its footer is read once.
struct OpenParquet {
  explicit OpenParquet(std::filesystem::path const& path, Metadata const& known = nullptr)
      : name(path.string()) {
    parquet::arrow::FileReaderBuilder builder;
    auto const file = detail::value_of(arrow::io::ReadableFile::Open(name), name);
    detail::require_arrow(builder.Open(file, parquet::default_reader_properties(), known), name);
    reader = detail::value_of(builder.Build(), name);
  }

  std::string name;
  std::unique_ptr<parquet::arrow::FileReader> reader;
};

/// Calls a function of Arrow, which may throw other exceptions for damaged files.
template <class Call>
decltype(auto) with_data_errors(std::string const& file, Call&& call) {
  try {
    return call();
  } catch (parquet::ParquetException const& error) {
    throw DataError(fmt::format("{}: {}", file, error.what()));
  }
}

/// Returns how many fields of a file have a name.
std::ptrdiff_t count_of(parquet::schema::GroupNode const& fields, std::string const& name) {
  std::ptrdiff_t count = 0;
  for (int field = 0; field < fields.field_count(); ++field) {
    count += fields.field(field)->name() == name ? 1 : 0;
  }
  return count;
}

/// Returns the leaf columns of the fields that are read. Throws DataError if one is missing, or if
/// several have its name.
std::vector<int> leaves_of(OpenParquet const& file, std::vector<ParquetColumn> const& columns) {
  auto const& schema = *file.reader->parquet_reader()->metadata()->schema();
  std::vector<std::string> roots;
  for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
    roots.push_back(schema.Column(leaf)->path()->ToDotVector().front());
  }
  std::vector<int> leaves;
  for (auto const& column : columns) {
    for (auto const& field : fields_of_parquet(column)) {
      auto const before = leaves.size();
      for (std::size_t leaf = 0; leaf < roots.size(); ++leaf) {
        if (roots[leaf] == field) {
          leaves.push_back(static_cast<int>(leaf));
        }
      }
      if (leaves.size() == before) {
        roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
        throw DataError(
            fmt::format("{}: column '{}': there is no field named '{}'; the fields are {}",
                        file.name,
                        column.name,
                        field,
                        fmt::join(roots, ", ")));
      }
      if (auto const fields = count_of(*schema.group_node(), field); fields != 1) {
        throw DataError(fmt::format("{}: column '{}': there are {} fields named '{}'; expected one",
                                    file.name,
                                    column.name,
                                    fields,
                                    field));
      }
    }
  }
  std::ranges::sort(leaves);
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  return leaves;
}

/// A row group of a file.
struct RowGroup {
  /// Appends the rows to a chunk, without those that the log may leave out. Throws DataError for
  /// the first bad row if it leaves out none.
  void read(std::vector<ParquetColumn> const& columns,
            std::shared_ptr<detail::BadRowLog> const& log,
            Chunk& chunk) const {
    auto const name = path.string();
    detail::BadGroupRows bad;
    with_data_errors(name, [&] {
      OpenParquet const open(path, metadata);
      auto const table =
          detail::value_of(open.reader->ReadRowGroup(number, leaves_of(open, columns)), name);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        auto const fields = fields_of_parquet(columns[i]);
        for (std::size_t slot = 0; slot < fields.size(); ++slot) {
          detail::ArrowPlace const place{name, columns[i], fields[slot], chunk.words(i), bad};
          detail::append_arrow(
              place, *table->GetColumnByName(fields[slot]), i, slot, table->num_rows(), chunk);
        }
      }
    });
    detail::ChunkAccess::for_each_unaligned(
        chunk, [&](std::int64_t row, std::string const& error) { bad.try_emplace(row, error); });
    if (bad.empty()) {
      return;
    }
    auto const error_of = [&](std::int64_t row, std::string const& error) {
      return fmt::format("{}, row {} of row group {}: {}", name, row, number, error);
    };
    if (!log->accepts_rows()) {
      throw DataError(error_of(bad.begin()->first, bad.begin()->second));
    }
    detail::keep_rows(chunk, [&](std::int64_t row) { return !bad.contains(row); });
    for (auto const& [row, error] : bad) {
      detail::ChunkAccess::bad_rows(chunk).push_back(
          {.file = file, .line = first_row + row, .lines = 1, .error = error_of(row, error)});
    }
    detail::ChunkAccess::bad_row_log(chunk) = log;
  }

  std::filesystem::path path;
  Metadata metadata;       ///< of the file
  std::int64_t file;       ///< the number of the file
  int number;              ///< of the row group in the file
  std::int64_t first_row;  ///< the number of the first row in the file
};

}  // namespace

/// The files and the row group that is read next.
class ParquetReader::Files {
 public:
  Files(std::vector<std::filesystem::path> paths,
        std::vector<ParquetColumn> columns,
        ParquetOptions const& options)
      : paths_(std::move(paths)),
        schema_(schema_of_parquet(columns)),
        columns_(with_missing(std::move(columns))),
        bad_rows_(std::make_shared<detail::BadRowLog>(options.max_bad_rows)) {
    require(!paths_.empty(), "expected at least one file to read");
    open();
  }

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }

  /// Lets nulls of columns that fill missing numbers be NaN.
  static std::shared_ptr<std::vector<ParquetColumn> const> with_missing(
      std::vector<ParquetColumn> columns) {
    for (auto& column : columns) {
      bool const has_missing = column.type == ColumnType::float32;
      if (has_missing && !column.if_null && fills_missing(column.transforms)) {
        column.if_null = std::numeric_limits<double>::quiet_NaN();
      }
    }
    return std::make_shared<std::vector<ParquetColumn>>(std::move(columns));
  }

  [[nodiscard]] std::optional<CountedTask> next_task() {
    while (file_ < paths_.size()) {
      if (!group_ends_) {
        open();
        require(group_ <= std::ssize(*group_ends_),
                "position: row group {} of {}, which has {}",
                group_,
                name_of(static_cast<std::int64_t>(file_)),
                group_ends_->size());
      }
      if (group_ < std::ssize(*group_ends_)) {
        auto const at = static_cast<std::size_t>(group_);
        RowGroup const group{.path = paths_[file_],
                             .metadata = metadata_,
                             .file = static_cast<std::int64_t>(file_),
                             .number = static_cast<int>(group_++),
                             .first_row = at == 0 ? 0 : (*group_ends_)[at - 1]};
        return CountedTask{[group, columns = columns_, log = bad_rows_](Chunk& chunk) {
                             group.read(*columns, log, chunk);
                           },
                           (*group_ends_)[at] - group.first_row};
      }
      ++file_;
      group_ = 0;
      group_ends_.reset();
    }
    return std::nullopt;
  }

  [[nodiscard]] bool may_leave_out_rows() const noexcept { return bad_rows_->accepts_rows(); }
  [[nodiscard]] BadRows bad_rows() const { return bad_rows_->rows(); }

  [[nodiscard]] std::string name_of(std::int64_t file) const {
    return paths_.at(static_cast<std::size_t>(file)).string();
  }

  [[nodiscard]] Source source() const {
    detail::SourceOfRows source;
    for (auto const& path : paths_) {
      source.add_file(path);
    }
    for (auto const& column : *columns_) {
      source.add(column.fields);
      source.add_options(column.buckets, column.if_null);
    }
    return source.source();
  }

  [[nodiscard]] Position position() const {
    return {.file = static_cast<std::int64_t>(file_), .offset = group_};
  }

  void seek(Position const& position) {
    require(position.file >= 0 && position.file <= static_cast<std::int64_t>(paths_.size()) &&
                position.offset >= 0,
            "position: file {} at row group {}; there are {} files",
            position.file,
            position.offset,
            paths_.size());
    file_ = static_cast<std::size_t>(position.file);
    group_ = position.offset;
    group_ends_.reset();
  }

 private:
  /// Counts the rows of the next file, and checks its fields.
  void open() {
    auto const name = paths_[file_].string();
    group_ends_ = with_data_errors(name, [&] {
      OpenParquet const file(paths_[file_]);
      static_cast<void>(leaves_of(file, *columns_));
      auto metadata = file.reader->parquet_reader()->metadata();
      std::vector<std::int64_t> ends;
      for (int group = 0; group < metadata->num_row_groups(); ++group) {
        auto const begin = ends.empty() ? 0 : ends.back();
        ends.push_back(begin + metadata->RowGroup(group)->num_rows());
      }
      metadata_ = std::move(metadata);
      return ends;
    });
  }

  std::vector<std::filesystem::path> paths_;
  Schema schema_;
  std::shared_ptr<std::vector<ParquetColumn> const> columns_;
  std::size_t file_ = 0;
  std::int64_t group_ = 0;
  /// The rows of the file up to the end of each row group; empty if it was not opened yet.
  std::optional<std::vector<std::int64_t>> group_ends_;
  Metadata metadata_;  ///< of that file
  std::shared_ptr<detail::BadRowLog> bad_rows_;
};

ParquetReader::ParquetReader(std::vector<std::filesystem::path> files,
                             std::vector<ParquetColumn> columns,
                             ParquetOptions const& options)
    : files_(std::make_unique<Files>(std::move(files), std::move(columns), options)) {}
ParquetReader::~ParquetReader() = default;

Schema const& ParquetReader::schema() const {
  return files_->schema();
}

bool ParquetReader::next(Chunk& chunk) {
  return detail::next_rows(*this, chunk);
}

std::string ParquetReader::file_name(std::int64_t file) const {
  return files_->name_of(file);
}

Reader::Position ParquetReader::position() const {
  return files_->position();
}

void ParquetReader::seek(Position const& position) {
  files_->seek(position);
}

Reader::Task ParquetReader::next_task() {
  auto counted = files_->next_task();
  return counted ? std::move(counted->task) : Task();
}

std::optional<Reader::CountedTask> ParquetReader::next_counted_task() {
  return files_->may_leave_out_rows() ? Reader::next_counted_task() : files_->next_task();
}

Reader::Source ParquetReader::source() const {
  return files_->source();
}

BadRows ParquetReader::bad_rows() const {
  return files_->bad_rows();
}

}  // namespace msstream::data
