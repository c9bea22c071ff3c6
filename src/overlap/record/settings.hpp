// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The recorder of CUDA programs. It is loaded into the processes of other people, so it uses the
/// C++ library alone, and loads CUPTI and zlib at run time.
namespace msstream::overlap::record {

/// The environment variables by which `msstream-overlap run` tells the recorder what to do.
namespace variable {
inline constexpr char kFolder[] = "MSSTREAM_OVERLAP_FOLDER";
inline constexpr char kPlain[] = "MSSTREAM_OVERLAP_PLAIN";
inline constexpr char kSkip[] = "MSSTREAM_OVERLAP_SKIP_MS";
inline constexpr char kDuration[] = "MSSTREAM_OVERLAP_DURATION_MS";
inline constexpr char kRange[] = "MSSTREAM_OVERLAP_RANGE";
inline constexpr char kGraphNodes[] = "MSSTREAM_OVERLAP_GRAPH_NODES";
inline constexpr char kMemory[] = "MSSTREAM_OVERLAP_MEMORY_MIB";
inline constexpr char kCupti[] = "MSSTREAM_OVERLAP_CUPTI";
inline constexpr char kWithout[] = "MSSTREAM_OVERLAP_WITHOUT";  ///< not set by the tool
}  // namespace variable

/// The choice of what is recorded, and the folder for the files.
struct Settings {
  std::string folder;            ///< absolute; each process writes a file of its own there
  bool plain = false;            ///< JSON that is not compressed
  std::int64_t skip_ms = 0;      ///< after CUDA is initialised
  std::int64_t duration_ms = 0;  ///< 0: until the end
  /// Records only while an NVTX range of this name is open. "DOMAIN/NAME" names its domain. Empty:
  /// always.
  std::string range;
  bool graph_nodes = false;      ///< each node of a CUDA graph instead of the graph as a whole
  std::size_t memory_mib = 256;  ///< of records that wait to be written
  std::string cupti;             ///< the file to load CUPTI from; empty: searched for
  bool in_program = false;       ///< begun and ended by the program, not by its environment
  /// Kinds that are not recorded, to measure what they cost: kernel, copy, fill, runtime, driver,
  /// launch-calls (of the runtime), sync, event, overhead, graph, stream. In the environment, with
  /// `+` between them.
  std::vector<std::string> without;

  [[nodiscard]] bool leaves_out(std::string_view kind) const noexcept;

  /// Reads the environment. `folder` is empty if the process was not started for a recording.
  [[nodiscard]] static Settings from_environment();
};

}  // namespace msstream::overlap::record
