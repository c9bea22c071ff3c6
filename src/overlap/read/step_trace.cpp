// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/step_trace.hpp"

#include "overlap/read/recording_builder.hpp"

#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>

#include <cmath>
#include <stdexcept>

namespace msstream::overlap {
namespace {

StepTrace parse_step_trace(std::string_view json, std::string const& file) {
  try {
    return StepTrace::from_json(json, file);
  } catch (std::invalid_argument const& error) {
    throw std::runtime_error(error.what());
  }
}

/// Returns a time in ns as a whole number; one that is far out of range as the nearest in range.
Ns whole_ns(double ns) {
  constexpr double most = 1e18;
  return std::isfinite(ns) ? static_cast<Ns>(std::llround(std::fmin(std::fmax(ns, -most), most)))
                           : 0;
}

}  // namespace

Recording recording_of_step_trace(std::string_view json, std::string const& file) {
  auto const trace = parse_step_trace(json, file);
  if (trace.operations().empty()) {
    throw std::runtime_error(fmt::format("{}: no work of a device in it: no operations", file));
  }
  RecordingBuilder builder;
  auto& recording = builder.recording();
  recording.origin = file;
  recording.source = "a step trace of msstream";
  for (std::size_t i = 0; i < trace.streams().size(); ++i) {
    auto const stream = builder.stream(0, kUnknown, static_cast<std::int64_t>(i));
    recording.streams[stream].name = builder.name(trace.streams()[i].name);
    recording.streams[stream].type = StreamType::non_blocking;
  }
  recording.has_stream_types = true;
  for (auto const& operation : trace.operations()) {
    Activity activity;
    activity.time = {whole_ns(operation.begin_ns), whole_ns(operation.end_ns)};
    activity.name = builder.name(operation.name);
    activity.stream = static_cast<Index>(operation.stream);
    if (operation.kind != StreamKind::compute) {
      activity.kind = ActivityKind::copy;
      activity.direction =
          operation.kind == StreamKind::h2d ? CopyDirection::h2d : CopyDirection::d2h;
    }
    builder.add(activity, 0);
  }
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    for (auto const before : trace.operations()[i].after) {
      recording.dependencies.push_back({static_cast<Index>(before), static_cast<Index>(i)});
    }
  }
  recording.has_dependencies = true;
  recording.notes.emplace_back("a step trace has no calls of CUDA: what the host did is unknown");
  return builder.finish(std::nullopt);
}

}  // namespace msstream::overlap
