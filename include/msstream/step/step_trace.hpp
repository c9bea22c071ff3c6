// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_group.hpp>
#include <msstream/stream/stream_slot.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// A stream that operations of a step ran on.
struct StepStream {
  std::string name;     ///< such as "group 2 h2d"
  int group = -1;       ///< number in its pool; -1: the device's default group
  bool merged = false;  ///< whether it does the copies of its group as well

  friend bool operator==(StepStream const&, StepStream const&) = default;
};

/// One operation of a step. Memory is named by its number in the trace.
struct StepOperation {
  std::string name;        ///< with the name scopes around it
  std::size_t stream = 0;  ///< its number in the trace
  StreamKind kind = StreamKind::compute;
  std::vector<std::size_t> reads = {};
  std::vector<std::size_t> writes = {};
  double begin_ns = 0;  ///< of device time since the recording began
  double end_ns = 0;
  double launch_ns = 0;  ///< what launching it took the host; 0: nobody said
  /// Multiprocessors that it can fill; 0: nobody said.
  int sms = 0;
  /// The earlier operations that it directly follows, ascending: those that last wrote what it
  /// uses, and those that have read since what it writes. The trace finds them.
  std::vector<std::size_t> after = {};

  [[nodiscard]] double duration_ns() const noexcept { return end_ns - begin_ns; }
  friend bool operator==(StepOperation const&, StepOperation const&) = default;
};

/// Operations each of which follows the one before, and the sum of their durations.
struct CriticalPath {
  std::vector<std::size_t> operations;
  double length_ns = 0;
};

/// The operations of one step in the order in which they were issued, what each needs of those
/// before it, and when it ran: a value, to look at, to keep, and to choose groups by.
///
/// Made by record_step(), or read from a file. What operations follow is what the program asks for:
/// no memory counts twice, and the groups that it ran on add nothing. Immutable.
class StepTrace {
 public:
  /// `memory_bytes[i]` is the size of memory i; `waits` are those of the recorded step. Throws
  /// std::invalid_argument for an operation without a name, with a number that is not there, or
  /// that ends before it begins; the message names the field.
  StepTrace(std::vector<StepStream> streams,
            std::vector<std::size_t> memory_bytes,
            std::vector<StepOperation> operations,
            WaitCounts const& waits = {});

  [[nodiscard]] std::vector<StepStream> const& streams() const noexcept { return streams_; }
  [[nodiscard]] std::vector<std::size_t> const& memory_bytes() const noexcept {
    return memory_bytes_;
  }
  [[nodiscard]] std::vector<StepOperation> const& operations() const noexcept {
    return operations_;
  }
  /// Waits that the step took as it was recorded.
  [[nodiscard]] WaitCounts const& waits() const noexcept { return waits_; }
  /// The group that an operation ran on; -1: the default group.
  [[nodiscard]] int group_of(std::size_t operation) const;

  /// The same step with launches that take the host `ns` together, each its part: what issuing the
  /// step takes when nothing is traced. A launch that is traced alone takes up to twice as long as
  /// one among others. Throws std::invalid_argument for 0 and below, and for what is not finite.
  [[nodiscard]] StepTrace with_issue_time(double ns) const;

  /// From the first operation's begin to the last one's end; 0 without operations.
  [[nodiscard]] double step_ns() const noexcept;
  /// Of all operations together: no single group takes less.
  [[nodiscard]] double busy_ns() const noexcept;
  /// Shares of the step's time with 0, 1, 2 … operations running; they add up to 1. Empty when
  /// there is no time.
  [[nodiscard]] std::vector<double> concurrency() const;
  /// The path of operations following each other that takes longest, first to last: no assignment
  /// makes the step shorter than that.
  [[nodiscard]] CriticalPath critical_path() const;

  /// As JSON. docs/step.md has the fields.
  [[nodiscard]] std::string json() const;
  /// Throws std::invalid_argument that names `file_name`, the field, what was expected and what was
  /// found.
  [[nodiscard]] static StepTrace from_json(std::string_view json, std::string const& file_name);
  /// Writes json() to a file as a whole (see OutputFile), or to a FIFO or device. Throws
  /// std::runtime_error when it cannot be written, std::invalid_argument for a folder.
  void save(std::filesystem::path const& path) const;
  /// Reads such a file. Throws what from_json() does, and std::invalid_argument for a file that
  /// cannot be read.
  [[nodiscard]] static StepTrace load(std::filesystem::path const& path);

  /// The graph for Graphviz: groups as colours, the critical path bold, with durations. `marked`: a
  /// path to mark in place of critical_path(), of another trace of the same step, such as one whose
  /// operations ran one at a time. Throws std::out_of_range for one with operations that are not
  /// there.
  [[nodiscard]] std::string dot(std::optional<CriticalPath> const& marked = {}) const;
  /// A picture that needs nothing else: a lane a stream over time, operations as bars that tell of
  /// themselves when pointed at, dependencies between groups as lines, the critical path marked, or
  /// `marked`, as dot() does.
  [[nodiscard]] std::string svg(std::optional<CriticalPath> const& marked = {}) const;

  friend bool operator==(StepTrace const&, StepTrace const&) = default;

 private:
  void check() const;
  void find_dependencies();

  std::vector<StepStream> streams_;
  std::vector<std::size_t> memory_bytes_;
  std::vector<StepOperation> operations_;
  WaitCounts waits_;
};

}  // namespace msstream
