// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::trace {

/// A list of spans (operations with their times on the device), with functions that measure, draw
/// and export it.
class Timeline {
 public:
  /// An operation on a stream, with its begin and end in nanoseconds of device time since the
  /// recording began.
  struct Span {
    std::string name;  ///< with the name scopes around it
    /// The name of the stream, such as "group 0 h2d". Streams of several pools may have one name.
    std::string lane;
    double begin_ns;  ///< device time since the recording began
    double end_ns;    ///< device time since the recording began
    /// The operation's position: the index of its stream among all streams, and its number on that
    /// stream; 0 if the operation has no position.
    std::uint32_t stream = 0;
    std::uint64_t number = 0;  ///< of the operation on its stream
    double launch_ns = 0;      ///< the host time that its launch took
  };

  /// A wait between streams: the operations of stream `to_stream` from number `to_number` on wait
  /// for those of `from_stream` up to `from_number`.
  struct Wait {
    std::uint32_t from_stream;
    std::uint64_t from_number;
    std::uint32_t to_stream;
    std::uint64_t to_number;

    friend bool operator==(Wait const&, Wait const&) = default;
  };

  /// Makes a timeline of spans, and of the waits between them.
  explicit Timeline(std::vector<Span> spans, std::vector<Wait> waits = {})
      : spans_(std::move(spans)), waits_(std::move(waits)) {}

  /// Returns a span for each operation that ran while the device recorded them.
  [[nodiscard]] std::vector<Span> const& spans() const& noexcept { return spans_; }
  [[nodiscard]] std::vector<Span> spans() && noexcept { return std::move(spans_); }
  /// Returns the waits that streams got during the recording, in the order of issue.
  [[nodiscard]] std::vector<Wait> const& waits() const& noexcept { return waits_; }
  /// Returns the latest end of a span, in ns since the recording began.
  [[nodiscard]] double length_ns() const noexcept;
  /// Returns the time in ns during which at least `count` spans ran at once. Spans of one stream do
  /// not overlap.
  [[nodiscard]] double overlapped_ns(std::size_t count = 2) const;
  /// Returns the names of the lanes that draw() and trace_json() have: one for each stream that has
  /// spans, in the order of the streams' indices. Of streams with one name, each but the first has
  /// a number behind its name, as in "group 0 compute (2)". Spans without a position are on a lane
  /// for each name, behind the others, in the order of names ("group 2" before "group 10").
  [[nodiscard]] std::vector<std::string> lanes() const;
  /// Returns for each span the index of its lane in lanes().
  [[nodiscard]] std::vector<std::size_t> lanes_of_spans() const;
  /// Returns a picture in text, one line per lane, `columns` characters wide. Every span is drawn
  /// with the first letter of its name.
  [[nodiscard]] std::string draw(std::size_t columns = 72) const;
  /// Returns the spans as Trace Event JSON, which Perfetto and chrome://tracing open, with an arrow
  /// for each wait whose two operations have spans. Each span's arguments are the index of its
  /// stream and the operation's number on it, if it has a position, and the time of its launch in
  /// us. If a rank is given, it is the number of the trace's process and an argument of each span,
  /// so that the events of several ranks can be in one trace. Throws std::invalid_argument if the
  /// rank is negative.
  [[nodiscard]] std::string trace_json(std::optional<int> rank = std::nullopt) const;

 private:
  std::vector<Span> spans_;
  std::vector<Wait> waits_;
};

}  // namespace msstream::trace
