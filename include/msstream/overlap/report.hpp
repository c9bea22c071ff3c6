// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/overlap/detail/step_watch.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

/// Why the streams of a program did not overlap: where the time of some steps went, to which causes
/// it was lost, and what to change. docs/overlap.md describes the causes.
///
/// Made by overlap_report(). A value; copies share its contents.
class OverlapReport {
 public:
  struct Options {
    int warm_up = 2;  ///< steps that run before the recording, at least 0
    int steps = 3;    ///< steps that are recorded, at least 1
  };

  /// The time of one class. `kind` is "overlapped" (two or more operations at once), "alone" (one,
  /// with nothing to run beside it), "lost" (one, by a cause) or "idle" (none, by a cause).
  struct Time {
    std::string kind;
    std::string cause;    ///< its id, such as "launch-bound"; empty for overlapped and alone
    std::int64_t ns = 0;  ///< nanoseconds, in the whole window
  };
  /// One cause of lost time.
  struct Finding {
    std::string cause;                        ///< its id
    std::string summary;                      ///< a sentence that names the cause
    std::int64_t lost_ns = 0;                 ///< in the whole window
    std::vector<std::string> evidence;        ///< sentences, the largest loss first
    std::string advice;                       ///< what to change in the program
    std::optional<double> predicted_step_ns;  ///< after the fix, if that can be predicted
  };

  /// For use by the library only.
  explicit OverlapReport(std::shared_ptr<detail::OverlapContents const> contents);

  /// Returns the findings, the largest loss first.
  [[nodiscard]] std::vector<Finding> const& findings() const& noexcept;
  [[nodiscard]] std::vector<Finding> findings() && { return std::as_const(*this).findings(); }
  /// Returns the time of each class. They sum to window_ns() exactly.
  [[nodiscard]] std::vector<Time> const& times() const& noexcept;
  [[nodiscard]] std::vector<Time> times() && { return std::as_const(*this).times(); }
  /// Returns the time from the begin of the first recorded operation to the end of the last one.
  [[nodiscard]] std::int64_t window_ns() const noexcept;
  /// Returns whether there is a finding of a cause, such as "host-busy". Throws
  /// std::invalid_argument, with all causes, if there is no such cause.
  [[nodiscard]] bool has(std::string_view cause) const;

  /// Returns the report as text for a terminal, without colours.
  [[nodiscard]] std::string text() const;
  /// Returns the report as JSON of the schema docs/overlap-report.schema.json.
  [[nodiscard]] std::string json() const;
  /// Returns the report as one page for a browser, which needs no network.
  [[nodiscard]] std::string html() const;
  /// Writes the report as a whole in the form that the end of the path names: .html, .json or .txt.
  /// Throws std::invalid_argument for another end, and what an OutputFile throws.
  void write(std::filesystem::path const& path) const;

 private:
  std::shared_ptr<detail::OverlapContents const> contents_;
};

/// Runs `step` a few times, records what it issues to the device, and says why the device's streams
/// did not overlap. Link the library msstream::overlap.
///
/// On CUDA, CUPTI traces what runs on the device, also work that bypasses issue(), and the calls of
/// CUDA; the recorder of msstream-overlap is loaded for that, while the steps run. If it or CUPTI
/// is missing, or if another profiler uses CUPTI, operations are timed by two events each, and the
/// report says so. So are they on other runtimes. Then work that bypasses issue() is not recorded,
/// and a replay of a captured step is one operation. Which operation needs the results of which is
/// always recorded. As under record_step(), operations are issued one at a time, and all memory
/// that they use stays allocated until the end: a step may take memory from the driver, and be told
/// so, that it would else reuse.
///
/// Blocks the host until all earlier work is complete, and again until the steps are complete.
/// Throws what `step` throws, std::invalid_argument for bad options and for steps that issue no
/// work, std::logic_error if record_step() would, and std::runtime_error if CUPTI's trace cannot be
/// read. After an exception nothing is recorded any more.
template <Runtime R, class Step>
[[nodiscard]] OverlapReport overlap_report(Device<R> const& device,
                                           Step&& step,
                                           OverlapReport::Options const& options = {}) {
  detail::StepWatch::check(options.warm_up, options.steps);
  detail::StepWatch watch(device.engine(), [&runtime = device.runtime()] {
    if constexpr (requires { runtime.host_time_ns(); }) {
      return runtime.host_time_ns();  // a simulation has a virtual clock
    } else {
      return detail::StepWatch::steady_ns();
    }
  });
  for (int i = 0; i < options.warm_up; ++i) {
    step();
  }
  watch.begin();
  for (int i = 0; i < options.steps; ++i) {
    watch.begin_step();
    step();
  }
  return OverlapReport(watch.finish());
}

}  // namespace msstream
