// SPDX-License-Identifier: Apache-2.0
#include "datasets/readers.hpp"

#include "datasets/parquet_clicks.hpp"
#include "datasets/text_format.hpp"

#include <msstream/base/error.hpp>
#include <msstream/data/byte_source.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/line_chunks.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::datasets {

namespace {

using data::ByteSource;
using data::detail::LineChunk;
using data::detail::LineChunks;
using data::detail::Quoting;

/// Bytes of another source. Keeps those that are read until read_on(), and gives them again after
/// each rewind(), so that a pipe can be inspected before it is read.
class InspectedBytes final : public ByteSource {
 public:
  explicit InspectedBytes(std::unique_ptr<ByteSource> bytes) : bytes_(std::move(bytes)) {}

  std::size_t read(char* out, std::size_t bytes) override {
    if (given_ < kept_.size()) {
      auto const count = std::min(bytes, kept_.size() - given_);
      std::copy_n(kept_.data() + given_, count, out);
      given_ += count;
      return count;
    }
    auto const count = bytes_->read(out, bytes);
    if (keeps_) {
      kept_.append(out, count);
      given_ = kept_.size();
    }
    return count;
  }
  void rewind() noexcept { given_ = 0; }
  /// Begins at the first byte for the last time.
  void read_on() noexcept {
    given_ = 0;
    keeps_ = false;
  }
  [[nodiscard]] bool is_inspected() const noexcept { return keeps_; }

 private:
  std::unique_ptr<ByteSource> bytes_;
  std::string kept_;
  std::size_t given_ = 0;
  bool keeps_ = true;
};

/// Passes on the bytes of a source that others refer to.
class SharedBytes final : public ByteSource {
 public:
  explicit SharedBytes(std::shared_ptr<ByteSource> bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(char* out, std::size_t bytes) override { return bytes_->read(out, bytes); }

 private:
  std::shared_ptr<ByteSource> bytes_;
};

/// Returns the next chunk with text, without the blank lines at its start.
std::optional<LineChunk> next_with_text(LineChunks& chunks) {
  auto chunk = chunks.next();
  while (chunk && (data::detail::skip_blank_lines(*chunk), chunk->lines.empty())) {
    chunk = chunks.next();
  }
  return chunk;
}

/// Returns whether the bytes are those of a Parquet file.
bool is_parquet(ByteSource& bytes) {
  constexpr std::string_view kMagic = "PAR1";
  std::array<char, kMagic.size()> first{};
  std::size_t count = 0;
  while (count < first.size()) {
    auto const more = bytes.read(first.data() + count, first.size() - count);
    if (more == 0) {
      return false;
    }
    count += more;
  }
  return std::string_view(first.data(), first.size()) == kMagic;
}

/// Returns the format of a data file, from its first record. Reads the first chunk again if a line
/// of it is only part of a record.
DataFormat chosen_format(DataFormat asked, LineChunks chunks, std::string const& name) {
  auto first = next_with_text(chunks);
  if (!first) {
    throw data::DataError(fmt::format("{}: expected rows, found an empty file", name));
  }
  if (asked != DataFormat::automatic) {
    return asked;
  }
  std::string_view lines = first->lines;
  auto const line = data::detail::take_line(lines);
  auto format = recognise_format(line);
  if (format == DataFormat::automatic && line.find('"') != std::string_view::npos) {
    constexpr Quoting quoting{',', true};
    chunks.reread(*first, quoting);
    first = next_with_text(chunks);
    lines = first.value().lines;
    format = recognise_format(data::detail::take_record(lines, quoting));
  }
  if (format == DataFormat::automatic) {
    throw data::DataError(fmt::format(
        "{}:{}: cannot tell the format from the first line; expected census (42 columns apart by "
        "commas), criteo-csv (header Id,Label,…), criteo-tsv (40 columns apart by tabs) or "
        "criteo-parquet",
        name,
        first->first_line));
  }
  return format;
}

std::unique_ptr<data::Reader> reader_of(std::vector<data::TextFile> files,
                                        TextFormat const& format) {
  if (format.tabs) {
    return std::make_unique<data::TsvReader>(std::move(files), format.options);
  }
  return std::make_unique<data::CsvReader>(std::move(files), format.options);
}

/// Returns a file whose bytes have been inspected. It is first opened for the inspection, then on
/// the same bytes, which may be those of a pipe, and anew each time after that.
data::TextFile inspected_file(std::filesystem::path const& path,
                              std::shared_ptr<InspectedBytes> const& bytes) {
  auto const first = std::make_shared<bool>(true);
  return {path.string(), [path, bytes, first]() -> std::unique_ptr<ByteSource> {
            if (bytes->is_inspected() || std::exchange(*first, false)) {
              return std::make_unique<SharedBytes>(bytes);
            }
            return data::open_bytes(path);
          }};
}

}  // namespace

std::unique_ptr<data::Reader> open_data(std::filesystem::path const& path,
                                        ReaderOptions const& options) {
  return open_data(std::vector{path}, options);
}

std::unique_ptr<data::Reader> open_data(std::vector<std::filesystem::path> const& paths,
                                        ReaderOptions const& options) {
  require(options.chunk_bytes > 0, "chunk_bytes: expected at least 1, found 0");
  require(!paths.empty(), "expected at least one file to read");
  auto const& path = paths.front();
  std::string const name = path.string();
  auto const bytes = std::make_shared<InspectedBytes>(data::open_bytes(path));
  bool const wants_parquet = options.format == DataFormat::criteo_parquet;
  bool const is_parquet_file =
      (wants_parquet || options.format == DataFormat::automatic) && is_parquet(*bytes);
  if (wants_parquet && !is_parquet_file) {
    throw data::DataError(fmt::format("{}: expected a Parquet file, which begins with PAR1", name));
  }
  if (is_parquet_file) {
    require(!options.never_married_task, "the never-married task needs census data, found Parquet");
    return open_parquet_clicks(paths, options.lists);
  }
  bytes->rewind();
  auto const format = text_format(
      options,
      chosen_format(options.format,
                    LineChunks(std::make_unique<SharedBytes>(bytes), name, options.chunk_bytes),
                    name));
  bytes->rewind();
  std::vector<data::TextFile> files{inspected_file(path, bytes)};
  files.insert(files.end(), paths.begin() + 1, paths.end());
  auto reader = reader_of(std::move(files), format);
  if (!reader->next_task()) {
    throw data::DataError(fmt::format(
        "{}: expected rows{}, found none", name, format.options.header ? " after the header" : ""));
  }
  bytes->read_on();
  reader->seek({});
  return reader;
}

std::vector<std::filesystem::path> data_paths(std::string const& option) {
  std::error_code unknown;
  if (option.empty()) {
    return {};
  }
  if (std::filesystem::exists(option, unknown)) {
    return {option};
  }
  std::vector<std::filesystem::path> paths;
  std::string_view rest = option;
  while (true) {
    auto const comma = rest.find(',');
    paths.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) {
      return paths;
    }
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace msstream::datasets
