// SPDX-License-Identifier: Apache-2.0
#include "overlap/live/program_trace.hpp"

#if MSSTREAM_READS_TRACES
#include "overlap/read/kineto.hpp"
#include "overlap/read/trace_json.hpp"
#endif

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace msstream::overlap {
namespace {

namespace fs = std::filesystem;

#if MSSTREAM_READS_TRACES
Recording read_trace(fs::path const& file) {
  KinetoReader reader;
  ByteSource source(file);
  auto const facts =
      read_trace_json(source, [&reader](TraceEvent const& event) { reader.take(event); });
  require(reader.has_work(), "overlap_report: the steps issued no work to the device");
  return reader.finish(facts, "this program");
}
#endif

std::string make_folder() {
  std::error_code error;
  auto folder = (fs::temp_directory_path(error) / "msstream-overlap.XXXXXX").string();
  return mkdtemp(folder.data()) == nullptr ? std::string() : folder;
}

/// Returns a version of CUPTI in words: 130001 as "13.0".
std::string version_text(std::uint32_t version) {
  // Before CUDA 12.9 the numbers counted up one by one.
  return version < 1'000 ? fmt::format("version {}", version)
                         : fmt::format("{}.{}", version / 10'000, version % 10'000 / 100);
}

}  // namespace

ProgramTrace::ProgramTrace(RecorderLibrary const& library, fs::path folder)
    : library_(library), folder_(std::move(folder)) {}

std::unique_ptr<ProgramTrace> ProgramTrace::begin(std::string& why_not) {
#if MSSTREAM_READS_TRACES
  auto library = RecorderLibrary::load();
  if (!library.why_not.empty()) {
    why_not = library.why_not;
    return nullptr;
  }
  auto const folder = make_folder();
  if (folder.empty()) {
    why_not = "the folder for temporary files cannot be written";
    return nullptr;
  }
  std::unique_ptr<ProgramTrace> trace(new ProgramTrace(library, folder));
  if (char const* const reason = library.start(record::kInProgramVersion, folder.c_str())) {
    why_not = reason;
    return nullptr;
  }
  trace->runs_ = true;
  return trace;
#else
  why_not = "this build of msstream reads no traces: RapidJSON or zlib was missing";
  return nullptr;
#endif
}

ProgramTrace::~ProgramTrace() {
  if (runs_) {
    record::InProgramTrace trace;
    library_.stop(&trace);
  }
  std::error_code error;
  fs::remove_all(folder_, error);
}

Traced ProgramTrace::end() {
  record::InProgramTrace trace;
  runs_ = false;
  if (char const* const reason = library_.stop(&trace)) {
    throw std::runtime_error(reason);
  }
  Traced traced;
#if MSSTREAM_READS_TRACES
  traced.recording = read_trace(trace.path);
#endif
  traced.zero_steady_ns = trace.monotonic_ns + (traced.recording.start_unix_ns - trace.unix_ns);
  traced.cupti = version_text(trace.cupti_version);
  return traced;
}

}  // namespace msstream::overlap
