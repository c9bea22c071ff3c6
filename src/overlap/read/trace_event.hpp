// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap {

/// The category of an event of a Chrome trace, its field "cat".
enum class Category : std::uint8_t {
  none,  ///< the event has no such field
  other,
  operation,
  annotation,
  device_annotation,
  call,
  kernel,
  copy,
  fill,
  sync,
  overhead,
  python,  ///< a function of Python
};

/// Numbers of an event.
enum class Field : std::uint8_t {
  begin,  ///< in ns
  length,
  pid,
  tid,
  device,
  context,
  stream,
  correlation,
  bytes,
  registers,
  shared_bytes,
  priority,
  channel,
  graph,
  graph_node,
  wait_on_stream,
  wait_on_record,
  wait_on_event,
  null_stream,
  event,
  input_elements,
  output_elements,
  group_size,
  sequence,
  rank,  ///< of a merged file
  count_,
};

/// Texts of an event.
enum class Text : std::uint8_t {
  name,
  sync_kind,
  collective,
  group,
  group_members,
  dtype,
  label,
  flag,
  domain,
  process,  ///< what is before the number of a process, if both are one text with a digit in it
  count_
};

/// An event of a Chrome trace: the fields that are understood.
struct TraceEvent {
  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

  char phase = 0;
  Category category = Category::none;
  bool is_nvtx = false;
  bool is_whole_graph = false;
  std::array<std::int64_t, static_cast<std::size_t>(Field::count_)> numbers{};
  std::array<std::string, static_cast<std::size_t>(Text::count_)> texts;
  std::array<int, 3> grid{};
  std::array<int, 3> block{};
  std::array<int, 3> cluster{};
  double blocks_per_sm = 0;

  [[nodiscard]] std::int64_t operator[](Field field) const {
    return numbers[static_cast<std::size_t>(field)];
  }
  [[nodiscard]] bool has(Field field) const { return (*this)[field] != kNothing; }
  [[nodiscard]] std::int64_t get(Field field, std::int64_t otherwise) const {
    return has(field) ? (*this)[field] : otherwise;
  }
  [[nodiscard]] std::string const& operator[](Text text) const {
    return texts[static_cast<std::size_t>(text)];
  }
  /// Makes the event empty, and keeps the memory of its texts.
  void clear() {
    phase = 0;
    category = Category::none;
    is_nvtx = is_whole_graph = false;
    numbers.fill(kNothing);
    for (auto& text : texts) {
      text.clear();
    }
    grid = block = {kUnknown, kUnknown, kUnknown};
    cluster = {1, 1, 1};
    blocks_per_sm = 0;
  }
};

/// The facts that a trace states outside its events.
struct TraceFacts {
  std::vector<Device> devices;
  std::string format;            ///< of msstream's own files
  std::string document;          ///< the schema of a JSON that is no trace, such as a report's
  std::string schema;            ///< the version of Kineto's; empty if the trace has none
  bool is_of_recorder = false;   ///< msstream's, not PyTorch's profiler, wrote the trace
  std::string recorder_version;  ///< of the recorder's format; empty if the trace has none
  std::string program;
  std::vector<std::string> notes;
  std::optional<std::int64_t> base_ns;
  int rank = kUnknown;
  int ranks = kUnknown;
  bool has_events = false;
};

}  // namespace msstream::overlap
