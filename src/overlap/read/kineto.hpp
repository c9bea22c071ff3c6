// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/processes.hpp"
#include "overlap/read/python_frames.hpp"
#include "overlap/read/recording_builder.hpp"
#include "overlap/read/trace_event.hpp"
#include "overlap/recording/counted.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Makes a recording from the events of a Chrome trace: of PyTorch's profiler (Kineto), of
/// msstream's recorder, which writes the same fields and a few more, or of a timeline of msstream,
/// which has lanes with spans and nothing else.
class KinetoReader {
 public:
  /// One process of a merged file.
  struct Part {
    Ns zero = 0;  ///< the source's time of Ns 0, for all parts
    int rank = kUnknown;
    int ranks = kUnknown;
    std::string note;
  };

  void take(TraceEvent const& event);
  /// Returns the processes of the events so far.
  [[nodiscard]] Processes processes() const { return Processes(marks_, builder_); }
  [[nodiscard]] Ns first_time() const { return builder_.first_time(); }
  [[nodiscard]] bool has_work() const { return builder_.activities() > 0 || is_timeline(); }
  /// Throws std::runtime_error, with `file`, if no work of a device was among the events.
  [[nodiscard]] Recording finish(TraceFacts const& facts,
                                 std::string const& file,
                                 std::optional<Part> const& part = std::nullopt);

 private:
  using Row = std::pair<std::int64_t, std::int64_t>;  ///< process and thread, or device and stream
  struct StreamFacts {
    StreamType type = StreamType::unknown;
    std::optional<int> priority;
  };
  /// An event without a category, as timelines have.
  struct LaneSpan {
    Interval time;
    Row row;
    NameId name = 0;
  };

  void take_metadata(TraceEvent const& event);
  void take_work(TraceEvent const& event, Interval time);
  void take_sync(TraceEvent const& event, Interval time);
  void take_range(TraceEvent const& event, Interval time);
  [[nodiscard]] Index stream_of(TraceEvent const& event, std::int64_t number);
  [[nodiscard]] Index collective_of_kernel(TraceEvent const& event);
  [[nodiscard]] Index thread_of(TraceEvent const& event);
  [[nodiscard]] bool is_timeline() const;
  void take_lanes();
  void describe_devices(TraceFacts const& facts);
  void describe_rows();
  void add_notes();
  [[nodiscard]] std::vector<std::string> dropped() const;
  [[nodiscard]] std::string dropped_text() const;

  RecordingBuilder builder_;
  PythonFrames frames_;
  Processes::Marks marks_;
  std::map<Row, std::string> row_names_;
  std::map<std::int64_t, std::string> process_names_;
  std::map<Row, StreamFacts> stream_facts_;  ///< by context and number
  std::map<Index, int> sms_;                 ///< of devices, by what their kernels say
  std::vector<LaneSpan> lane_spans_;
  std::vector<std::pair<Range, Row>> device_ranges_;
  std::uint64_t spans_ = 0;
  Counted without_time_;
  Counted without_length_;
  std::uint64_t pairs_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t hip_calls_ = 0;
  std::uint64_t without_call_ = 0;
};

}  // namespace msstream::overlap
