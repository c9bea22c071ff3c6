// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/event_writer.hpp"
#include "overlap/record/happening.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap::record {

/// One moment on three clocks, in ns.
struct Moment {
  std::int64_t recording = 0;  ///< CUPTI's clock, on which all times of a recording are
  std::int64_t unix_time = 0;  ///< CLOCK_REALTIME
  std::int64_t monotonic = 0;  ///< CLOCK_MONOTONIC, which all processes of a machine share

  /// Fills the other clocks in.
  void read_system_clocks();
};

/// The facts that are known when a recording begins.
struct Head {
  std::vector<DeviceFacts> devices;
  std::int64_t pid = 0;
  std::string program;
  std::vector<std::string> command;
  std::string host;
  /// The number among several processes: from RANK, OMPI_COMM_WORLD_RANK and their like, otherwise
  /// the order in which the processes began.
  int rank = 0;
  int ranks = 0;  ///< 0 if unknown
  bool rank_is_known = false;
  Moment start;
  std::uint32_t cupti_version = 0;
  std::string cupti;
  int driver_version = 0;
  bool graph_nodes = false;
  std::string range;
  std::int64_t skip_ms = 0;
  std::int64_t duration_ms = 0;
  std::size_t memory_limit_bytes = 0;
  std::vector<std::string> notes;

  /// Fills in what the process itself tells: pid, program, command, host, rank.
  void describe_process(int order);
};

/// The facts that are known when a recording ends.
struct Foot {
  bool complete = true;
  std::string reason;  ///< why it ended
  EventWriter::Counts counts;
  std::uint64_t dropped_records = 0;
  std::size_t most_buffer_bytes = 0;
  double recorder_cpu_seconds = 0;  ///< of the thread that wrote the file
  Moment end;
  std::vector<std::pair<std::int64_t, std::int64_t>> windows;  ///< when it recorded, ns since start
  std::vector<std::string> notes;
};

/// Returns the beginning of the file, with the first event: every later event is preceded by a
/// comma.
[[nodiscard]] std::string text_of(Head const& head);

/// Returns the end of the file: it closes the list of events, and says whether the recording is
/// complete. A file without it was cut.
[[nodiscard]] std::string text_of(Foot const& foot);

/// Returns the end of a file whose process was killed.
[[nodiscard]] std::string text_of_cut_foot(std::string_view reason);

}  // namespace msstream::overlap::record
