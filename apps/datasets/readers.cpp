// SPDX-License-Identifier: Apache-2.0
#include "datasets/readers.hpp"

#include "datasets/data_error.hpp"
#include "datasets/line_chunks.hpp"
#include "datasets/row_parser.hpp"

#include <msstream/base/error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace msstream::datasets {

namespace {

/// Removes the blank lines before the first line that is not blank.
void skip_blank_lines(LineChunk& chunk) {
  std::string_view rest = chunk.lines;
  std::int64_t blank = 0;
  for (std::string_view after = rest; !after.empty() && take_line(after).empty(); ++blank) {
    rest = after;
  }
  chunk.lines.erase(0, chunk.lines.size() - rest.size());
  chunk.first_line += blank;
}

/// Returns the next chunk with text, without the blank lines at its start.
std::optional<LineChunk> next_with_text(LineChunks& chunks) {
  auto chunk = chunks.next();
  while (chunk) {
    skip_blank_lines(*chunk);
    if (!chunk->lines.empty()) {
      break;
    }
    chunk = chunks.next();
  }
  return chunk;
}

/// Returns the format of a data file whose first chunk is `first`. If a line of `first` is only
/// part of a record, reads `first` again.
DataFormat chosen_format(DataFormat asked,
                         LineChunks& chunks,
                         std::optional<LineChunk>& first,
                         std::string const& name) {
  std::string_view lines = first->lines;
  auto const line = take_line(lines);
  auto format = asked == DataFormat::automatic ? recognise_format(line) : asked;
  if (format == DataFormat::automatic && line.find('"') != std::string_view::npos) {
    constexpr Quoting quoting{',', true};
    chunks.reread(*first, quoting);
    first = next_with_text(chunks);
    lines = first.value().lines;
    format = recognise_format(take_record(lines, quoting));
  }
  if (format == DataFormat::automatic) {
    throw DataError(fmt::format(
        "{}:{}: cannot tell the format from the first line; expected census (42 columns apart by "
        "commas), criteo-csv (header Id,Label,…) or criteo-tsv (40 columns apart by tabs)",
        name,
        first->first_line));
  }
  return format;
}

class TextSource final : public RowSource {
 public:
  /// Starts at `first`, the first chunk of `chunks`, which begins with a line that is not blank.
  /// Checks the header, if the format has one.
  TextSource(LineChunks chunks, LineChunk first, TextFormat const& format, std::string const& name)
      : chunks_(std::move(chunks)),
        first_(std::move(first)),
        schema_(format.schema()),
        parser_(format, name) {
    if (format.has_header) {
      std::string_view rest = first_->lines;
      auto const header = format.quoting() ? take_record(rest, *format.quoting()) : take_line(rest);
      parser_.check_header(header, first_->first_line);
      auto const taken = first_->lines.size() - rest.size();
      first_->first_line += std::ranges::count(first_->lines.substr(0, taken), '\n');
      first_->lines.erase(0, taken);
      skip_blank_lines(*first_);
      if (first_->lines.empty()) {
        first_ = next_with_text(chunks_);
      }
      if (!first_) {
        throw DataError(fmt::format("{}: expected rows after the header, found none", name));
      }
    }
  }

  [[nodiscard]] Schema const& schema() const override { return schema_; }

  [[nodiscard]] RowTask next() override {
    auto chunk = first_ ? std::exchange(first_, std::nullopt) : chunks_.next();
    if (!chunk) {
      return {};
    }
    return [this, lines = std::move(*chunk)] { return parser_.parse(lines); };
  }

 private:
  LineChunks chunks_;
  std::optional<LineChunk> first_;
  Schema schema_;
  RowParser parser_;
};

}  // namespace

std::unique_ptr<RowSource> open_data(std::filesystem::path const& path,
                                     ReaderOptions const& options) {
  require(options.chunk_bytes > 0, "chunk_bytes: expected at least 1, found 0");
  std::string const name = path.string();
  LineChunks chunks(open_bytes(path), name, options.chunk_bytes);
  auto first = next_with_text(chunks);
  if (!first) {
    throw DataError(fmt::format("{}: expected rows, found an empty file", name));
  }
  auto const format = text_format(options, chosen_format(options.format, chunks, first, name));
  if (format.quoting()) {
    chunks.reread(*first, *format.quoting());
    first = next_with_text(chunks);
  }
  return std::make_unique<TextSource>(std::move(chunks), std::move(first.value()), format, name);
}

}  // namespace msstream::datasets
