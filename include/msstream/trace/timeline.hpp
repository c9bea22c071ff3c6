// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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
    std::string name;
    std::string lane;  ///< the name of the stream, such as "group 0 h2d"
    double begin_ns;
    double end_ns;
    /// The operation's position: the index of its stream among all streams, and its number on that
    /// stream; 0 if the operation has no position.
    std::uint32_t stream = 0;
    std::uint64_t number = 0;
    double launch_ns = 0;  ///< the host time that its launch took
  };

  explicit Timeline(std::vector<Span> spans) : spans_(std::move(spans)) {}

  [[nodiscard]] std::vector<Span> const& spans() const& noexcept { return spans_; }
  [[nodiscard]] std::vector<Span> spans() && noexcept { return std::move(spans_); }
  /// Returns the latest end of a span, in ns since the recording began.
  [[nodiscard]] double length_ns() const noexcept;
  /// Returns the time in ns during which at least `count` spans ran at once. Spans of one lane,
  /// which is one stream, do not overlap.
  [[nodiscard]] double overlapped_ns(std::size_t count = 2) const;
  /// Returns a picture in text, one line per lane, `columns` characters wide. Every span is drawn
  /// with the first letter of its name.
  [[nodiscard]] std::string draw(std::size_t columns = 72) const;
  /// Returns the spans as Trace Event JSON, which Perfetto and chrome://tracing open.
  [[nodiscard]] std::string trace_json() const;

 private:
  std::vector<Span> spans_;
};

}  // namespace msstream::trace
