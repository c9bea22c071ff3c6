// SPDX-License-Identifier: Apache-2.0
#include "training/streaming_options.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/byte_source.hpp>
#include <msstream/report/progress_line.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::training {

namespace {

constexpr std::int64_t kMegabyte = 1'000'000;
constexpr char const* kAdvice = "--stream leaves them in their files; ulimit -v may bound it";

/// Returns the size of a regular file, and otherwise 0.
std::uintmax_t bytes_of(std::filesystem::path const& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) {
    return 0;
  }
  auto const bytes = std::filesystem::file_size(path, failed);
  return failed ? 0 : bytes;
}

/// Returns the memory of the machine, or the largest number if it is not known.
std::uintmax_t memory_bytes() {
  auto const pages = ::sysconf(_SC_PHYS_PAGES);
  auto const page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::uintmax_t>(pages) * static_cast<std::uintmax_t>(page_bytes)
             : std::numeric_limits<std::uintmax_t>::max();
}

/// Returns whether a file has neither gzip's nor Parquet's first bytes.
bool is_plain_text(std::filesystem::path const& path) {
  std::array<char, 4> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  std::string_view const bytes(first.data(), first.size());
  return !bytes.starts_with("\x1f\x8b") && bytes != "PAR1";
}

/// Opens each file, so that one that cannot be read ends the program before the rows of others are
/// read. Leaves out pipes, whose bytes can be read once.
void require_files(std::string const& data, std::vector<std::filesystem::path> const& paths) {
  for (auto const& path : paths) {
    if (path.empty()) {
      throw cli::UsageError(
          fmt::format("--data {}: expected a file, or several with a comma between two, found an "
                      "empty name",
                      data));
    }
  }
  for (auto const& path : paths) {
    std::error_code failed;
    if (!std::filesystem::is_other(path, failed)) {
      (void)data::open_bytes(path);
    }
  }
}

/// Returns the counts of the checkpoint that a run resumes from, if both stream their rows. Throws
/// std::invalid_argument if one of them does, and the other does not.
std::optional<ClickCounts> known_counts(DataFiles const& files, StreamingOptions const& chosen) {
  if (files.resume.empty()) {
    return std::nullopt;
  }
  auto counts = counts_in_checkpoint(files.resume);
  require(counts.has_value() == chosen.stream,
          "{}: was trained {} --stream, this run is {} it",
          files.resume,
          counts ? "with" : "without",
          counts ? "without" : "with");
  return counts;
}

TrainingData streamed(DataFiles const& files,
                      std::vector<std::filesystem::path> const& paths,
                      StreamingOptions const& chosen,
                      std::optional<ClickCounts> known) {
  for (auto const& path : paths) {
    std::error_code failed;
    if (std::filesystem::exists(path, failed) && !std::filesystem::is_regular_file(path, failed)) {
      throw cli::UsageError(fmt::format(
          "--stream reads each file several times; {} is no regular file", path.string()));
    }
  }
  FileProgress const progress(paths);
  auto style = report::ProgressLine::Style::of_stderr(files.quiet);
  style.unit = "MB";
  auto const megabytes = std::max<std::int64_t>(1, progress.bytes() / kMegabyte);
  std::optional<report::ProgressLine> line;
  StreamedDataOptions options{.data = files.rows, .shuffle_rows = chosen.rows_to_shuffle()};
  options.known = std::move(known);
  options.at_place = [&](data::Reader::Position const& place) {
    if (!line) {
      line.emplace("counting rows", megabytes, style);
    }
    line->update(progress.bytes_read(place) / kMegabyte);
  };
  auto data = stream_training_data(
      [paths, reader = files.reader] { return datasets::open_data(paths, reader); },
      files.data,
      options);
  if (line) {
    line->update(megabytes);
    line->finish();
  }
  return data;
}

}  // namespace

void add_options(cli::Options& options, StreamingOptions& chosen) {
  options.add_flag("--stream",
                   chosen.stream,
                   "leave the rows of --data in their files, and read them for each epoch; the "
                   "default is to keep all rows in memory");
  options.add<std::int64_t>("--shuffle-rows",
                            chosen.shuffle_rows,
                            StreamingOptions::kShuffleRows,
                            "rows that --stream shuffles among each other, of which it has up to "
                            "three times as many in memory; 0 keeps the order of the files",
                            {0, 1'000'000'000});
}

void check_streaming(StreamingOptions const& chosen, std::string const& data) {
  if (chosen.stream && data.empty()) {
    throw cli::UsageError("--stream describes a file: give --data");
  }
  if (!chosen.stream && chosen.shuffle_rows) {
    throw cli::UsageError(
        "--shuffle-rows goes with --stream; rows in memory are shuffled in whole epochs");
  }
}

nlohmann::ordered_json describe(StreamingOptions const& chosen) {
  return {{"stream", chosen.stream}, {"shuffle_rows", chosen.rows_to_shuffle()}};
}

void add_data_files(std::string const& data, std::vector<cli::InputOption>& inputs) {
  for (auto const& path : datasets::data_paths(data)) {
    inputs.push_back({"--data", path.string()});
  }
}

void require_fit(std::vector<std::filesystem::path> const& paths,
                 int copies,
                 std::uintmax_t memory_bytes) {
  std::uintmax_t bytes = 0;
  for (auto const& path : paths) {
    bytes += bytes_of(path);
  }
  if (bytes > memory_bytes / static_cast<std::uintmax_t>(copies)) {
    throw cli::UsageError(fmt::format(
        "--data: the files have {} MB{}, the memory of this machine {} MB; with --stream, rows "
        "stay in their files",
        bytes / kMegabyte,
        copies == 1 ? "" : fmt::format(", of which the parts of a batch need {} copies", copies),
        memory_bytes / kMegabyte));
  }
}

TrainingData data_of_files(DataFiles const& files, StreamingOptions const& chosen) {
  auto const paths = datasets::data_paths(files.data);
  require_files(files.data, paths);
  auto known = known_counts(files, chosen);
  if (chosen.stream) {
    return streamed(files, paths, chosen, std::move(known));
  }
  require_fit(paths, files.copies, memory_bytes());
  auto const reader = datasets::open_data(paths, files.reader);
  auto rows = files.rows;
  rows.advice = kAdvice;
  return load_training_data(*reader, files.data, rows);
}

FileProgress::FileProgress(std::vector<std::filesystem::path> const& paths) {
  for (auto const& path : paths) {
    begins_.push_back(begins_.back() + static_cast<std::int64_t>(bytes_of(path)));
    is_text_.push_back(is_plain_text(path));
  }
}

std::int64_t FileProgress::bytes_read(data::Reader::Position const& place) const noexcept {
  auto const file = static_cast<std::size_t>(place.file);
  if (file >= is_text_.size()) {
    return begins_.back();
  }
  return is_text_[file] ? std::min(begins_[file] + place.offset, begins_[file + 1]) : begins_[file];
}

}  // namespace msstream::training
