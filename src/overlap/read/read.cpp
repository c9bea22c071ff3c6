// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/read.hpp"

#include "overlap/read/byte_source.hpp"
#include "overlap/read/kineto.hpp"
#include "overlap/read/nsight.hpp"
#include "overlap/read/step_trace.hpp"
#include "overlap/read/trace_json.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

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

}  // namespace

std::vector<Recording> read(std::filesystem::path const& file, ReadOptions const& options) {
  ByteSource source(file, options);
  auto const name = file.string();
  if (source.magic().empty()) {
    throw std::runtime_error(fmt::format("{}: is empty", name));
  }
  if (source.magic().starts_with("SQLite format 3")) {
    return read_nsight(file, options);
  }
  if (!source.is_gzipped() && source.magic().find_first_of("{[") == std::string_view::npos) {
    throw std::runtime_error(fmt::format(
        "{}: neither JSON nor gzipped JSON nor SQLite; of Nsight Systems, give the export: nsys "
        "export --type sqlite",
        name));
  }
  KinetoReader reader;
  auto const facts =
      read_trace_json(source, [&reader](TraceEvent const& event) { reader.take(event); });
  std::vector<Recording> recordings;
  if (facts.format == kStepTraceFormat) {
    ByteSource again(file, options);
    recordings.push_back(recording_of_step_trace(all_of(again), name));
  } else if (!facts.has_events) {
    throw std::runtime_error(
        fmt::format("{}: no trace: JSON without the list \"traceEvents\"", name));
  } else {
    recordings.push_back(reader.finish(facts, name));
  }
  return recordings;
}

}  // namespace msstream::overlap
