// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/in_program.hpp"
#include "overlap/record/recorder_cuda.hpp"

#include <exception>
#include <string>

namespace msstream::overlap::record {

namespace {

/// Keeps a text until the next one; returns nullptr for an empty text.
char const* kept(std::string const& text) {
  static auto& last = *new std::string;
  last = text;
  return text.empty() ? nullptr : last.c_str();
}

}  // namespace

}  // namespace msstream::overlap::record

using msstream::overlap::record::InProgramTrace;
using msstream::overlap::record::kept;
using msstream::overlap::record::Recorder;

extern "C" {

__attribute__((visibility("default"))) char const* msstream_overlap_start(int version,
                                                                          char const* folder) {
  if (version != msstream::overlap::record::kInProgramVersion) {
    return kept("the recorder's library is of another version of msstream");
  }
  try {
    return kept(Recorder::start_in_program(folder));
  } catch (std::exception const& error) {
    return kept(error.what());
  }
}

__attribute__((visibility("default"))) char const* msstream_overlap_stop(InProgramTrace* trace) {
  static auto& path = *new std::string;
  try {
    auto const stopped = Recorder::stop_in_program();
    path = stopped.path;
    trace->path = path.c_str();
    trace->unix_ns = stopped.start.unix_time;
    trace->monotonic_ns = stopped.start.monotonic;
    trace->cupti_version = stopped.cupti_version;
    return kept(stopped.error);
  } catch (std::exception const& error) {
    return kept(error.what());
  }
}
}
