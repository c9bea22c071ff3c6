// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/collective_kind.hpp>
#include <msstream/stream/stream_kind.hpp>
#include <msstream/stream/wait_counts.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// The operations of one step in the order of issue, with their dependencies and times. A trace can
/// be inspected and saved, and auto_assignment() chooses stream groups from it.
///
/// Made by record_step(), or read from a file. Dependencies are those of the program only: reuse of
/// memory adds none, and neither do the groups of the recording. Immutable.
class StepTrace {
 public:
  /// A stream on which operations of a recorded step ran.
  struct Stream {
    std::string name;     ///< such as "group 2 h2d"
    int group = -1;       ///< number in its pool; -1 for the device's default group
    bool merged = false;  ///< whether it also runs the copies of its group

    friend bool operator==(Stream const&, Stream const&) = default;
  };

  /// A collective of several ranks, as one of them has issued it.
  struct Collective {
    comm::CollectiveKind kind;  ///< such as all_reduce
    std::size_t bytes = 0;      ///< what the rank gives: the input, or the tensor of all_reduce
    std::string communicator;   ///< its name
    int ranks = 1;              ///< of the communicator

    friend bool operator==(Collective const&, Collective const&) = default;
  };

  /// One operation of a step. Memory is identified by its number in the trace.
  struct Operation {
    std::string name;                       ///< including the name scopes around it
    std::size_t stream = 0;                 ///< number of the stream in the trace
    StreamKind kind = StreamKind::compute;  ///< computation, or a copy between host and device
    std::vector<std::size_t> reads = {};    ///< numbers of the memory that it reads
    std::vector<std::size_t> writes = {};   ///< numbers of the memory that it writes, and may read
    double begin_ns = 0;                    ///< device time since the start of the recording
    double end_ns = 0;                      ///< device time since the start of the recording
    double launch_ns = 0;                   ///< host time of the launch; 0 if unknown
    /// The number of multiprocessors that the operation can fill; 0 if unknown.
    int sms = 0;
    std::optional<Collective> collective = {};  ///< null for other operations
    /// The numbers of earlier operations on which the operation directly depends, ascending: the
    /// last writers of the memory that it uses, and the readers since then of the memory that it
    /// writes. Computed by StepTrace.
    std::vector<std::size_t> after = {};

    /// Returns the device time from begin to end.
    [[nodiscard]] double duration_ns() const noexcept { return end_ns - begin_ns; }
    friend bool operator==(Operation const&, Operation const&) = default;
  };

  /// A sequence of operations in which each depends on the one before, and the sum of their
  /// durations.
  struct CriticalPath {
    std::vector<std::size_t> operations;  ///< their numbers, ascending
    double length_ns = 0;                 ///< the sum of their durations
  };

  /// Makes a trace. `memory_bytes[i]` is the size in bytes of memory i; `waits` are the numbers of
  /// waits of the recorded step. Throws std::invalid_argument for an operation without a name, with
  /// a number that does not exist, or that ends before it begins; the message names the field.
  StepTrace(std::vector<Stream> streams,
            std::vector<std::size_t> memory_bytes,
            std::vector<Operation> operations,
            WaitCounts const& waits = {});

  /// Returns the streams, by number.
  [[nodiscard]] std::vector<Stream> const& streams() const noexcept { return streams_; }
  /// Returns the size in bytes of each piece of memory, by number.
  [[nodiscard]] std::vector<std::size_t> const& memory_bytes() const noexcept {
    return memory_bytes_;
  }
  /// Returns the operations in the order of issue, which numbers them.
  [[nodiscard]] std::vector<Operation> const& operations() const noexcept { return operations_; }
  /// Returns the numbers of waits that ordering the step took when it was recorded.
  [[nodiscard]] WaitCounts const& waits() const noexcept { return waits_; }
  /// Returns the number of the stream group on which an operation ran; -1 for the default group.
  [[nodiscard]] int group_of(std::size_t operation) const;

  /// Returns the same step with launches that take `ns` of host time in total, divided in
  /// proportion to the recorded launch times, or equally if none is known. Pass the time of issuing
  /// the step without a trace: a launch that is traced on its own takes up to twice as long as one
  /// among others. Throws std::invalid_argument unless `ns` is positive and finite.
  [[nodiscard]] StepTrace with_issue_time(double ns) const;

  /// Returns the time in ns from the start of the first operation to the end of the last one; 0
  /// without operations.
  [[nodiscard]] double step_ns() const noexcept;
  /// Returns the sum of the durations of all operations in ns. A step whose operations run one
  /// after the other takes at least as long.
  [[nodiscard]] double busy_ns() const noexcept;
  /// Returns the shares of the step's time in which 0, 1, 2 … operations run. The shares add up to
  /// 1. Empty if the step takes no time.
  [[nodiscard]] std::vector<double> concurrency() const;
  /// Returns the path of dependent operations with the longest total duration, from first to last.
  /// No assignment of operations to streams makes the step shorter than this path.
  [[nodiscard]] CriticalPath critical_path() const;

  /// Returns the trace as JSON. docs/step.md describes the fields.
  [[nodiscard]] std::string json() const;
  /// Reads a trace from JSON. For wrong JSON, throws std::invalid_argument with `file_name`, the
  /// field, and what was expected and found.
  [[nodiscard]] static StepTrace from_json(std::string_view json, std::string const& file_name);
  /// Writes the trace as JSON to a file, as a whole (see OutputFile), or to a FIFO or device.
  /// Throws std::runtime_error if it cannot be written, and std::invalid_argument for a folder.
  void save(std::filesystem::path const& path) const;
  /// Reads a trace from a file that save() wrote. Throws what from_json() throws, and
  /// std::invalid_argument for a file that cannot be read.
  [[nodiscard]] static StepTrace load(std::filesystem::path const& path);

  /// Returns the graph of the step's dependencies for Graphviz, with durations, colours for groups,
  /// and the critical path in bold. If `marked` is given, that path is in bold instead; it may come
  /// from another trace of the same step, such as one whose operations ran one at a time. Throws
  /// std::out_of_range for a path with operations that do not exist.
  [[nodiscard]] std::string dot(std::optional<CriticalPath> const& marked = {}) const;
  /// Returns a self-contained picture of the step as SVG: one lane per stream over time, operations
  /// as bars with tooltips, dependencies between groups as lines, and the critical path, or
  /// `marked`, highlighted. Throws std::out_of_range for a path with operations that do not exist.
  [[nodiscard]] std::string svg(std::optional<CriticalPath> const& marked = {}) const;

  friend bool operator==(StepTrace const&, StepTrace const&) = default;

 private:
  void check() const;
  void find_dependencies();

  std::vector<Stream> streams_;
  std::vector<std::size_t> memory_bytes_;
  std::vector<Operation> operations_;
  WaitCounts waits_;
};

}  // namespace msstream
