// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace msstream::trace {

/// One operation on one stream, in nanoseconds of device time since the recording began.
struct Span {
  std::string name;
  std::string lane;  ///< the stream, such as "group 0 h2d"
  double begin_ns;
  double end_ns;
  /// The operation's position: its stream's index among all, and its number there; 0: it has none.
  std::uint32_t stream = 0;
  std::uint64_t number = 0;
  double launch_ns = 0;  ///< what launching it took the host
};

/// Spans to look at.
class Timeline {
 public:
  explicit Timeline(std::vector<Span> spans) : spans_(std::move(spans)) {}

  [[nodiscard]] std::vector<Span> const& spans() const& noexcept { return spans_; }
  [[nodiscard]] std::vector<Span> spans() && noexcept { return std::move(spans_); }
  /// The end of the last span.
  [[nodiscard]] double length_ns() const noexcept;
  /// For how long at least `count` spans ran at once. Spans of one lane, which is one stream, do
  /// not overlap.
  [[nodiscard]] double overlapped_ns(std::size_t count = 2) const;
  /// A picture in text, a line a lane, `columns` characters wide; every span is drawn with the
  /// first letter of its name.
  [[nodiscard]] std::string draw(std::size_t columns = 72) const;
  /// Trace Event JSON, which Perfetto and chrome://tracing open.
  [[nodiscard]] std::string trace_json() const;

 private:
  std::vector<Span> spans_;
};

}  // namespace msstream::trace
