// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msstream::overlap {

/// What `msstream-overlap run` is asked to do.
struct RunOptions {
  std::vector<std::string> command;  ///< the program and its arguments
  /// The file to write: gzipped JSON, or plain JSON if the name ends in ".json". Empty:
  /// PROGRAM.overlap.json.gz in the current folder, with a number if that exists.
  std::filesystem::path output = {};
  bool force = false;        ///< replace `output` if it exists
  std::int64_t skip_ms = 0;  ///< before the recording begins, counted from CUDA's initialisation
  std::int64_t duration_ms = 0;  ///< 0: until the program ends
  std::string range = {};        ///< record only inside NVTX ranges "NAME" or "DOMAIN/NAME"
  bool graph_nodes = false;      ///< each node of CUDA graphs, instead of graphs as a whole
  std::size_t memory_mib = 256;  ///< for records that wait to be written
  /// Whether the recorder is preloaded. Without, a program that ends by _exit(), or restores a
  /// signal and raises it, may lose the last second.
  bool preload = true;
  std::filesystem::path cupti = {};     ///< libcupti.so to load, if the program has none
  std::filesystem::path recorder = {};  ///< the recorder; empty: the one installed with the tool
};

/// Records a program, and returns its exit status: 128 + N if signal N ended it, 127 if it was not
/// found, 126 if it cannot be executed. Messages go to standard error.
///
/// Each process that initialises CUDA writes a file of its own; if there are several, the process
/// number is part of their names. Signals that other processes send to the tool are passed on.
/// Blocks until the program ends.
///
/// Throws std::invalid_argument if options are out of range, and std::runtime_error if the
/// recording cannot begin: without the recorder, with another profiler, or if `output` exists.
int run(RunOptions const& options);

}  // namespace msstream::overlap
