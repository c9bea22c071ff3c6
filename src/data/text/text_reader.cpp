// SPDX-License-Identifier: Apache-2.0
#include "data/next_rows.hpp"
#include "data/text/text_files.hpp"
#include "data/text/text_plan.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/text_values.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace msstream::data {

namespace detail {

namespace {

/// Removes the first record, and returns it without its line end.
std::string take_header(LineChunk& chunk, TextRules const& rules) {
  std::string_view rest = chunk.lines;
  std::string header(take_record(rest, rules.quoting()));
  auto const taken = chunk.lines.size() - rest.size();
  chunk.first_line += std::ranges::count(chunk.lines.substr(0, taken), '\n');
  chunk.lines.erase(0, taken);
  chunk.offset += static_cast<std::int64_t>(taken);
  return header;
}

}  // namespace

/// The rows of CSV or TSV files. Each file has a plan, from its header.
class TextRows final : public TextFiles {
 public:
  TextRows(std::vector<TextFile> files, TextOptions options, TextRules rules)
      : TextFiles(std::move(files), options.chunk_bytes, options.max_bad_rows, rules.quoting()),
        schema_(schema_of(options)),
        columns_(with_missing(std::move(options.columns))),
        missing_(std::make_shared<MissingWords>(std::move(options.missing))),
        header_(options.header),
        names_(std::move(options.names)),
        rules_(rules) {
    open();
  }

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }

 private:
  /// Lets empty fields of columns that fill missing numbers be NaN.
  static std::shared_ptr<std::vector<TextColumn> const> with_missing(
      std::vector<TextColumn> columns) {
    for (auto& column : columns) {
      bool const has_missing = column.type == ColumnType::float32;
      if (has_missing && !column.if_empty && fills_missing(column.transforms)) {
        column.if_empty = std::numeric_limits<double>::quiet_NaN();
      }
    }
    return std::make_shared<std::vector<TextColumn>>(std::move(columns));
  }

  void begin_file(std::size_t file, std::optional<LineChunk>& first) override {
    plans_.resize(std::max(plans_.size(), file + 1));
    auto const& name = name_of(file);
    if (!header_) {
      plans_[file] = plan_of(name, rules_, columns_, missing_, names_, 0);
      return;
    }
    if (!first) {
      throw DataError(fmt::format("{}: expected a header, found an empty file", name));
    }
    auto const line = first->first_line;
    auto names = fields_of(take_header(*first, rules_), rules_);
    if (!names_.empty() && names != names_) {
      auto const joined = [&](std::vector<std::string> const& fields) {
        return shown(fmt::format("{}", fmt::join(fields, std::string_view(&rules_.separator, 1))));
      };
      throw DataError(fmt::format(
          "{}:{}: expected the header {}, found {}", name, line, joined(names_), joined(names)));
    }
    plans_[file] = plan_of(name, rules_, columns_, missing_, std::move(names), line);
    skip_blank_lines(*first);
    if (first->lines.empty()) {
      first.reset();
    }
  }

  [[nodiscard]] Reader::Task task_of(std::size_t file, LineChunk records) override {
    return [plan = plans_[file],
            of = records_of(file),
            text = std::make_shared<LineChunk const>(std::move(records))](Chunk& rows) {
      parse_records(of, *text, rows, [&](LineChunk const& some, Chunk& chunk) {
        parse_rows(*plan, some, chunk);
      });
    };
  }

  void add_options(SourceOfRows& source) const override {
    for (auto const& column : *columns_) {
      source.add(column.fields);
      source.add_options(column.buckets,
                         column.if_empty,
                         column.value_separator,
                         column.to_float != nullptr,
                         column.to_int != nullptr);
    }
    source.add(names_);
    source.add(missing_->words());
    source.add_options(header_, rules_.separator, rules_.quotes, rules_.trim_spaces);
  }

  Schema schema_;
  std::shared_ptr<std::vector<TextColumn> const> columns_;
  std::shared_ptr<MissingWords const> missing_;
  bool header_;
  std::vector<std::string> names_;
  TextRules rules_;
  std::vector<std::shared_ptr<TextPlan const>> plans_;
};

}  // namespace detail

TextFile::TextFile(std::filesystem::path path)
    : name(path.string()), open([path = std::move(path)] { return open_bytes(path); }) {}

TextReader::TextReader(detail::TextKind kind, std::vector<TextFile> files, TextOptions options)
    : rows_([&] {
        bool const is_csv = kind == detail::TextKind::csv;
        auto const separator = options.separator != '\0' ? options.separator : is_csv ? ',' : '\t';
        require(std::string_view("\"\r\n").find(separator) == std::string_view::npos &&
                    !(options.trim_spaces && separator == ' '),
                "text reader: the separator {}; expected neither a quote, a line end nor, with "
                "trim_spaces, a space",
                detail::shown(std::string_view(&separator, 1)));
        detail::TextRules const rules{separator, is_csv, options.trim_spaces};
        return std::make_unique<detail::TextRows>(std::move(files), std::move(options), rules);
      }()) {}
TextReader::~TextReader() = default;

Schema const& TextReader::schema() const {
  return rows_->schema();
}

bool TextReader::next(Chunk& chunk) {
  return detail::next_rows(*this, chunk);
}

Reader::Position TextReader::position() const {
  return rows_->position();
}

void TextReader::seek(Position const& position) {
  rows_->seek(position);
}

Reader::Task TextReader::next_task() {
  return rows_->next_task();
}

std::optional<Reader::CountedTask> TextReader::next_counted_task() {
  return rows_->may_leave_out_rows() ? Reader::next_counted_task() : rows_->next_counted_task();
}

std::string TextReader::file_name(std::int64_t file) const {
  return rows_->name_of(static_cast<std::size_t>(file));
}

Reader::Source TextReader::source() const {
  return rows_->source();
}

BadRows TextReader::bad_rows() const {
  return rows_->bad_rows();
}

std::vector<std::string> numbered_names(std::string_view prefix, int first, int last) {
  std::vector<std::string> names;
  for (int number = first; number <= last; ++number) {
    names.push_back(fmt::format("{}{}", prefix, number));
  }
  return names;
}

std::vector<TextColumn> text_columns(Schema const& schema) {
  std::vector<TextColumn> columns;
  for (auto const& column : schema.columns()) {
    require(column.width == 1,
            "text_columns: column '{}' has a width of {}; expected one value in each row",
            column.name,
            column.width);
    columns.push_back({.name = column.name, .type = column.type, .transforms = column.transforms});
  }
  return columns;
}

std::vector<std::string> pandas_missing() {
  return {"#N/A",
          "#N/A N/A",
          "#NA",
          "-1.#IND",
          "-1.#QNAN",
          "-NaN",
          "-nan",
          "1.#IND",
          "1.#QNAN",
          "<NA>",
          "N/A",
          "NA",
          "NULL",
          "NaN",
          "None",
          "n/a",
          "nan",
          "null"};
}

}  // namespace msstream::data
