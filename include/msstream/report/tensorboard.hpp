// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace msstream::report {

/// Writes an event file, which TensorBoard shows: `tensorboard --logdir run`.
///
///     report::TensorBoardWriter board("run");
///     board.scalar("loss/train", loss, step);
///
/// Events are kept in memory, at most Options::buffer_bytes of them, and appended to the file when
/// it is full, after Options::flush_after, and by flush(). After each of these, the file consists
/// of whole events, also if the disk was full in the middle. TensorBoard may read it meanwhile.
///
/// Thread-safe. A call that only keeps an event takes no file operation.
class TensorBoardWriter {
 public:
  struct Options {
    /// The most memory for events that are not yet in the file, in bytes; at least 1 KiB. A larger
    /// event is written at once.
    std::size_t buffer_bytes = std::size_t{1} << 20U;
    /// The time after which the next event takes the earlier ones to the file.
    std::chrono::milliseconds flush_after = std::chrono::seconds(10);
    /// The clock: seconds since 1970. If null, the system's.
    std::function<double()> now = {};
  };

  /// Makes the folder, if there is none, and in it a new file whose name begins with
  /// `events.out.tfevents`. Throws std::system_error if the file cannot be made, and
  /// std::invalid_argument for options out of range.
  explicit TensorBoardWriter(std::filesystem::path const& folder);
  TensorBoardWriter(std::filesystem::path const& folder, Options const& options);
  TensorBoardWriter(TensorBoardWriter const&) = delete;
  TensorBoardWriter& operator=(TensorBoardWriter const&) = delete;
  /// Flushes. An error is written to the standard error stream.
  ~TensorBoardWriter();

  /// Adds a point of the curve `tag`. TensorBoard groups tags by what is before the first `/`.
  /// Files have values of float32: a finite value beyond its range becomes the largest one of its
  /// sign.
  ///
  /// This and the functions below throw std::invalid_argument for a tag that is empty or not UTF-8;
  /// and std::system_error if events have to be written to the file and cannot be: then the event
  /// is not added, and the earlier ones are kept for the next flush.
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Adds a text, which TensorBoard shows as Markdown. Throws std::invalid_argument if it is not
  /// UTF-8.
  void text(std::string_view tag, std::string_view text, std::int64_t step);
  /// Adds the distribution of values, in buckets whose limits grow by a tenth. Values that are not
  /// finite are left out; if none is left, adds nothing.
  void histogram(std::string_view tag, std::span<float const> values, std::int64_t step);

  /// Writes all events so far to the file. Throws std::system_error if that fails; the file then
  /// ends with the last event of the flush before.
  void flush();

  /// Returns the path of the event file that is written.
  [[nodiscard]] std::filesystem::path const& path() const noexcept;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::report
