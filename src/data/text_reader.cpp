// SPDX-License-Identifier: Apache-2.0
#include "data/text_plan.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/text_values.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
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

/// The rows of a list of text files. The state is a file that is open, and the chunk of it that
/// begins behind the header, or that no file is open and the next one is number `file_`.
class TextRows {
 public:
  TextRows(TextKind kind, std::vector<TextFile> files, TextOptions options)
      : files_(std::move(files)),
        schema_(schema_of(options)),
        columns_(std::make_shared<std::vector<TextColumn>>(std::move(options.columns))),
        options_(std::move(options)),
        rules_{kind == TextKind::csv ? ',' : '\t', kind == TextKind::csv, options_.trim_spaces},
        plans_(files_.size()) {
    require(!files_.empty(), "expected at least one file to read");
    open();
  }

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }

  [[nodiscard]] Reader::Task next_task() {
    while (chunks_ || file_ < files_.size()) {
      if (!chunks_) {
        open();
      }
      auto chunk = first_ ? std::exchange(first_, std::nullopt) : chunks_->next();
      if (chunk && (skip_blank_lines(*chunk), chunk->lines.empty())) {
        continue;
      }
      if (chunk) {
        return [plan = plans_[file_], text = std::make_shared<LineChunk const>(std::move(*chunk))](
                   Chunk& rows) { parse_rows(*plan, *text, rows); };
      }
      chunks_.reset();
      ++file_;
    }
    return {};
  }

  [[nodiscard]] Reader::Position position() const {
    Reader::Position position{.file = static_cast<std::int64_t>(file_)};
    if (chunks_) {
      position.offset = first_ ? first_->offset : chunks_->offset();
      position.line = first_ ? first_->first_line : chunks_->line();
    }
    return position;
  }

  void seek(Reader::Position const& position) {
    require(position.file >= 0 && position.file <= static_cast<std::int64_t>(files_.size()) &&
                position.offset >= 0,
            "position: file {} at byte {}; there are {} files",
            position.file,
            position.offset,
            files_.size());
    chunks_.reset();
    first_.reset();
    file_ = static_cast<std::size_t>(position.file);
    if (position.offset == 0 || file_ == files_.size()) {
      return;
    }
    if (options_.header && plans_[file_] == nullptr) {
      open();  // reads the header
    }
    auto chunks = chunks_of(file_);
    chunks.skip_to(position.offset, position.line);
    if (plans_[file_] == nullptr) {
      plans_[file_] = plan_of(files_[file_].name, rules_, columns_, options_.names, 0);
    }
    first_.reset();
    chunks_ = std::move(chunks);
  }

 private:
  [[nodiscard]] LineChunks chunks_of(std::size_t file) const {
    return {files_[file].open(), files_[file].name, options_.chunk_bytes, rules_.quoting()};
  }

  /// Opens the next file, and reads its header if it has one.
  void open() {
    auto chunks = chunks_of(file_);
    auto const& name = files_[file_].name;
    if (!options_.header) {
      plans_[file_] = plan_of(name, rules_, columns_, options_.names, 0);
      chunks_ = std::move(chunks);
      return;
    }
    auto first = chunks.next();
    while (first && (skip_blank_lines(*first), first->lines.empty())) {
      first = chunks.next();
    }
    if (!first) {
      throw DataError(fmt::format("{}: expected a header, found an empty file", name));
    }
    auto const line = first->first_line;
    auto names = fields_of(take_header(*first, rules_), rules_);
    if (!options_.names.empty() && names != options_.names) {
      auto const joined = [&](std::vector<std::string> const& fields) {
        return shown(fmt::format("{}", fmt::join(fields, std::string_view(&rules_.separator, 1))));
      };
      throw DataError(fmt::format("{}:{}: expected the header {}, found {}",
                                  name,
                                  line,
                                  joined(options_.names),
                                  joined(names)));
    }
    plans_[file_] = plan_of(name, rules_, columns_, std::move(names), line);
    if (!first->lines.empty()) {
      first_ = std::move(first);
    }
    chunks_ = std::move(chunks);
  }

  std::vector<TextFile> files_;
  Schema schema_;
  std::shared_ptr<std::vector<TextColumn> const> columns_;
  TextOptions options_;
  TextRules rules_;
  std::vector<std::shared_ptr<TextPlan const>> plans_;
  std::size_t file_ = 0;
  std::optional<LineChunks> chunks_;
  std::optional<LineChunk> first_;
};

}  // namespace detail

TextFile::TextFile(std::filesystem::path path)
    : name(path.string()), open([path = std::move(path)] { return open_bytes(path); }) {}

TextReader::TextReader(detail::TextKind kind, std::vector<TextFile> files, TextOptions options)
    : rows_(std::make_unique<detail::TextRows>(kind, std::move(files), std::move(options))) {}
TextReader::~TextReader() = default;

Schema const& TextReader::schema() const {
  return rows_->schema();
}

bool TextReader::next(Chunk& chunk) {
  auto const task = rows_->next_task();
  if (!task) {
    return false;
  }
  task(chunk);
  return true;
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

std::vector<std::string> numbered_names(std::string_view prefix, int first, int last) {
  std::vector<std::string> names;
  for (int number = first; number <= last; ++number) {
    names.push_back(fmt::format("{}{}", prefix, number));
  }
  return names;
}

}  // namespace msstream::data
