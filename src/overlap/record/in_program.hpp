// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The functions by which a program records itself, found by dlsym() in the recorder's library.
/// They have no types of C++, as the library has a C++ library of its own. Calls must not overlap.
namespace msstream::overlap::record {

/// The version of these functions: a recorder of another one refuses.
inline constexpr int kInProgramVersion = 1;

/// A recording that has ended.
struct InProgramTrace {
  char const* path = nullptr;  ///< of the file; valid until the next call
  /// The moment that the file writes as time 0.
  std::int64_t unix_ns = 0;
  std::int64_t monotonic_ns = 0;
  std::uint32_t cupti_version = 0;
};

/// Begins to record this program to a file in a folder. Returns why it cannot, valid until the next
/// call; nullptr on success.
using StartInProgram = char const* (*)(int version, char const* folder);
inline constexpr char kStartInProgram[] = "msstream_overlap_start";

/// Ends the recording and completes the file. Work that still runs is left out. Returns why there
/// is no file, valid until the next call; nullptr on success.
using StopInProgram = char const* (*)(InProgramTrace* trace);
inline constexpr char kStopInProgram[] = "msstream_overlap_stop";

}  // namespace msstream::overlap::record
