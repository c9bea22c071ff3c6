// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/read.hpp"

#include "overlap/read/byte_source.hpp"
#include "overlap/read/kineto.hpp"
#include "overlap/read/nsight.hpp"
#include "overlap/read/step_trace.hpp"
#include "overlap/read/trace_json.hpp"
#include "overlap/recording/clocks.hpp"
#include "overlap/recording/doubts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

std::string all_of(ByteSource& source) {
  std::string text;
  while (true) {
    auto const piece = source.next();
    if (piece.empty()) {
      return text;
    }
    text += piece;
  }
}

/// Throws std::runtime_error for a file of a compression that is not read, which it names.
void refuse_other_compression(std::string_view magic, std::string const& file) {
  using namespace std::string_view_literals;
  struct Format {
    std::string_view begin;
    std::string_view name;
    std::string_view command;
  };
  constexpr Format kFormats[] = {{"\x28\xB5\x2F\xFD"sv, "zstd", "zstd -d"},
                                 {"\xFD\x37zXZ\x00"sv, "xz", "xz -d"},
                                 {"\x04\x22\x4D\x18"sv, "lz4", "lz4 -d"},
                                 {"BZh"sv, "bzip2", "bzip2 -d"},
                                 {"PK\x03\x04"sv, "zip", "unzip"}};
  for (auto const& format : kFormats) {
    if (magic.starts_with(format.begin)) {
      throw std::runtime_error(
          fmt::format("{}: is compressed by {}, which cannot be read: unpack it ({}), or compress "
                      "it by gzip",
                      file,
                      format.name,
                      format.command));
    }
  }
}

/// Reads a merged file again, with a recording for each of its processes.
std::vector<Recording> read_processes(std::filesystem::path const& file,
                                      ReadOptions const& options,
                                      Processes processes,
                                      Ns zero) {
  std::vector<KinetoReader> readers(processes.count());
  ByteSource source(file, options);
  auto const facts = read_trace_json(source, [&](TraceEvent const& event) {
    auto const process = processes.of(event);
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (process == i || process == Processes::kAll) {
        readers[i].take(event);
      }
    }
  });
  auto const count =
      std::ranges::count_if(readers, [](KinetoReader const& reader) { return reader.has_work(); });
  std::vector<Recording> recordings;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i].has_work()) {
      recordings.push_back(readers[i].finish(
          facts,
          file.string(),
          KinetoReader::Part{.zero = zero,
                             .rank = processes.rank_of(i),
                             .ranks = static_cast<int>(count),
                             .note = fmt::format("{} of {} processes in one file, on its clock; {}",
                                                 processes.name_of(i),
                                                 count,
                                                 processes.how())}));
    }
  }
  return recordings;
}

/// Notes devices on which several processes of a file work: each has a report of its own. Ranks of
/// collectives have a device each, whatever its number.
void note_shared_devices(std::vector<Recording>& recordings) {
  std::map<int, std::vector<Recording*>> users;
  for (auto& recording : recordings) {
    std::set<int> numbers;
    for (auto const& activity : recording.activities) {
      numbers.insert(recording.devices[recording.streams[activity.stream].device].number);
    }
    for (auto const number : numbers) {
      if (recording.collectives.empty()) {
        users[number].push_back(&recording);
      }
    }
  }
  for (auto const& [number, processes] : users) {
    for (auto* const recording : processes) {
      if (processes.size() > 1) {
        recording->notes.push_back(fmt::format(
            "{} processes of the file work on a GPU with the number {}, and each has a "
            "report of its own: if that is one GPU, it gives them turns, unless they use "
            "MPS, and the work of the others counts as idle time here",
            processes.size(),
            number));
      }
    }
  }
}

std::vector<Recording> read_file(std::filesystem::path const& file, ReadOptions const& options) {
  ByteSource source(file, options);
  auto const name = file.string();
  if (source.magic().empty()) {
    throw std::runtime_error(fmt::format("{}: is empty", name));
  }
  if (source.magic().starts_with("SQLite format 3")) {
    return read_nsight(file, options);
  }
  refuse_other_compression(source.magic(), name);
  if (!source.is_gzipped() && source.magic().find_first_of("{[") == std::string_view::npos) {
    throw std::runtime_error(fmt::format(
        "{}: neither JSON nor gzipped JSON nor SQLite; of Nsight Systems, give the export: nsys "
        "export --type sqlite",
        name));
  }
  auto reader = std::make_optional<KinetoReader>();
  auto const facts =
      read_trace_json(source, [&reader](TraceEvent const& event) { reader->take(event); });
  std::vector<Recording> recordings;
  if (facts.format == kStepTraceFormat) {
    ByteSource again(file, options);
    recordings.push_back(recording_of_step_trace(all_of(again), name));
  } else if (facts.document.starts_with("msstream-overlap-")) {
    throw std::runtime_error(fmt::format(
        "{}: is no recording, but a JSON of the schema {}: --compare takes two reports; otherwise, "
        "give the recording",
        name,
        facts.document));
  } else if (!facts.has_events) {
    throw std::runtime_error(
        fmt::format("{}: no trace: JSON without the list \"traceEvents\"", name));
  } else if (auto processes = reader->processes(); processes.count() > 1) {
    auto const zero = reader->first_time();
    reader.reset();
    recordings = read_processes(file, options, std::move(processes), zero);
  } else {
    recordings.push_back(reader->finish(facts, name));
  }
  return recordings;
}

}  // namespace

std::vector<Recording> read(std::filesystem::path const& file, ReadOptions const& options) {
  auto recordings = read_file(file, options);
  std::ranges::for_each(recordings, align_devices);
  std::ranges::for_each(recordings, note_doubtful_times);
  note_shared_devices(recordings);
  return recordings;
}

}  // namespace msstream::overlap
