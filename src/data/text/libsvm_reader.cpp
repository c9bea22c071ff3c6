// SPDX-License-Identifier: Apache-2.0
#include "data/next_rows.hpp"
#include "data/text/text_files.hpp"
#include "data/text/text_numbers.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace msstream::data {

namespace {

/// The numbers of the columns, in the schema that schema_of_libsvm() returns.
enum : std::size_t { kLabel, kIndices, kValues, kQuery };

Schema schema_of_libsvm(LibSvmOptions const& options) {
  require(
      options.features >= 0, "LibSvmReader: features is {}; expected at least 0", options.features);
  std::vector<Column> columns{{options.label},
                              {options.indices, ColumnType::int64, kJagged},
                              {options.values, ColumnType::float32, kJagged}};
  if (!options.query.empty()) {
    columns.push_back({options.query, ColumnType::int64});
  }
  return Schema(std::move(columns));
}

/// Removes the next word from the start of `line` and returns it; empty at the end.
std::string_view take_libsvm_word(std::string_view& line) {
  constexpr std::string_view spaces = " \t";
  line.remove_prefix(std::min(line.find_first_not_of(spaces), line.size()));
  auto const word = line.substr(0, line.find_first_of(spaces));
  line.remove_prefix(word.size());
  return word;
}

/// Returns what of a line is a row; empty if it has none.
std::string_view without_comment(std::string_view line) {
  line = line.substr(0, line.find('#'));
  return line.find_first_not_of(" \t") == std::string_view::npos ? std::string_view() : line;
}

/// Parses the lines of a chunk.
class LibSvmLines {
 public:
  LibSvmLines(LibSvmOptions const& options, std::string const& file, Chunk& chunk)
      : options_(options), file_(file), chunk_(chunk) {}

  void parse(detail::LineChunk const& text) {
    std::string_view lines = text.lines;
    memory_ = {lines.data(), lines.data() + lines.size()};
    for (number_ = text.first_line; !lines.empty(); ++number_) {
      auto const line = without_comment(detail::take_line(lines));
      if (!line.empty()) {
        parse_line(line);
      }
    }
  }

 private:
  void parse_line(std::string_view line) {
    auto word = take_libsvm_word(line);
    float label = 0;
    expect(detail::to_number<float>(word, memory_, nullptr, label), "a label", word);
    chunk_.floats(kLabel).push_back(label);
    word = take_libsvm_word(line);
    if (!options_.query.empty()) {
      std::int64_t query = 0;
      expect(word.starts_with("qid:") && to_integer(word.substr(4), query), "qid:number", word);
      chunk_.ints(kQuery).push_back(query);
      word = take_libsvm_word(line);
    }
    auto& indices = chunk_.ints(kIndices);
    auto& values = chunk_.floats(kValues);
    auto const most = options_.features > 0 ? options_.first_index + options_.features - 1
                                            : std::numeric_limits<std::int64_t>::max();
    for (auto last = options_.first_index - 1; !word.empty(); word = take_libsvm_word(line)) {
      auto const colon = std::min(word.find(':'), word.size());
      std::int64_t index = 0;
      float value = 0;
      expect(colon < word.size() && to_integer(word.substr(0, colon), index) &&
                 detail::to_number<float>(word.substr(colon + 1), memory_, nullptr, value),
             "index:value",
             word);
      if (index <= last || index > most) [[unlikely]] {
        expect(index > last, fmt::format("an index above {}", last), word);
        expect(false, fmt::format("an index of at most {}", most), word);
      }
      last = index;
      indices.push_back(index - options_.first_index);
      values.push_back(value);
    }
    chunk_.offsets(kIndices).push_back(static_cast<std::int64_t>(indices.size()));
    chunk_.offsets(kValues).push_back(static_cast<std::int64_t>(values.size()));
  }

  bool to_integer(std::string_view text, std::int64_t& number) const {
    return detail::to_number<std::int64_t>(text, memory_, nullptr, number);
  }
  void expect(bool holds, std::string_view expected, std::string_view found) const {
    if (!holds) [[unlikely]] {
      throw DataError(fmt::format(
          "{}:{}: expected {}, found {}", file_, number_, expected, detail::shown(found)));
    }
  }

  LibSvmOptions const& options_;
  std::string const& file_;
  Chunk& chunk_;
  detail::TextMemory memory_{};
  std::int64_t number_ = 0;
};

}  // namespace

class LibSvmReader::Rows final : public detail::TextFiles {
 public:
  Rows(std::vector<TextFile> files, LibSvmOptions options)
      : TextFiles(std::move(files), options.chunk_bytes, options.max_bad_rows, std::nullopt),
        schema_(schema_of_libsvm(options)),
        options_(std::make_shared<LibSvmOptions>(std::move(options))) {
    open();
  }

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }

 private:
  void begin_file(std::size_t, std::optional<detail::LineChunk>&) override {}
  void add_options(detail::SourceOfRows& source) const override {
    source.add_options(options_->features, options_->first_index);
  }
  [[nodiscard]] Task task_of(std::size_t file, detail::LineChunk records) override {
    return [options = options_,
            of = records_of(file),
            text = std::make_shared<detail::LineChunk const>(std::move(records))](Chunk& rows) {
      parse_records(of, *text, rows, [&](detail::LineChunk const& some, Chunk& chunk) {
        LibSvmLines(*options, of.name, chunk).parse(some);
      });
    };
  }

  [[nodiscard]] std::int64_t rows_of(std::string_view records) const override {
    std::int64_t rows = 0;
    while (!records.empty()) {
      rows += without_comment(detail::take_line(records)).empty() ? 0 : 1;
    }
    return rows;
  }

  Schema schema_;
  std::shared_ptr<LibSvmOptions const> options_;
};

LibSvmReader::LibSvmReader(std::vector<TextFile> files, LibSvmOptions options)
    : rows_(std::make_unique<Rows>(std::move(files), std::move(options))) {}
LibSvmReader::~LibSvmReader() = default;

Schema const& LibSvmReader::schema() const {
  return rows_->schema();
}

bool LibSvmReader::next(Chunk& chunk) {
  return detail::next_rows(*this, chunk);
}

Reader::Position LibSvmReader::position() const {
  return rows_->position();
}

void LibSvmReader::seek(Position const& position) {
  rows_->seek(position);
}

Reader::Task LibSvmReader::next_task() {
  return rows_->next_task();
}

std::optional<Reader::CountedTask> LibSvmReader::next_counted_task() {
  return rows_->may_leave_out_rows() ? Reader::next_counted_task() : rows_->next_counted_task();
}

std::string LibSvmReader::file_name(std::int64_t file) const {
  return rows_->name_of(static_cast<std::size_t>(file));
}

Reader::Source LibSvmReader::source() const {
  return rows_->source();
}

BadRows LibSvmReader::bad_rows() const {
  return rows_->bad_rows();
}

}  // namespace msstream::data
