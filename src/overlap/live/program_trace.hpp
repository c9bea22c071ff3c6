// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/live/recorder_library.hpp"
#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace msstream::overlap {

/// A trace of this program that CUPTI made.
struct Traced {
  Recording recording;
  /// The time of Ns 0 on the machine's steady clock.
  std::int64_t zero_steady_ns = 0;
  std::string cupti;  ///< its version, in words
};

/// A guard that lets CUPTI trace this program while it lives. One at a time.
class ProgramTrace {
 public:
  /// Begins a trace. Returns nullptr, and the reason in `why_not`, if it cannot.
  [[nodiscard]] static std::unique_ptr<ProgramTrace> begin(std::string& why_not);
  ProgramTrace(ProgramTrace const&) = delete;
  ProgramTrace& operator=(ProgramTrace const&) = delete;
  ~ProgramTrace();

  /// Ends the trace, blocks until all work of the calling thread's device is complete, and returns
  /// what was traced. Throws std::invalid_argument if no work was, and std::runtime_error if the
  /// trace cannot be read. Call once.
  [[nodiscard]] Traced end();

 private:
  ProgramTrace(RecorderLibrary const& library, std::filesystem::path folder);

  RecorderLibrary library_;
  std::filesystem::path folder_;
  bool runs_ = false;
};

}  // namespace msstream::overlap
