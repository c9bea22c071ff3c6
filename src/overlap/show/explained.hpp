// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/report.hpp"
#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// A recording, and the report that explains it. Both must outlive this view of them.
struct Explained {
  Recording const& recording;
  Report const& report;
};

/// Returns the name of a class in JSON: `overlapped`, `alone`, `lost` or `idle`.
[[nodiscard]] std::string_view id_of(TimeClass kind) noexcept;
/// Returns what a class is called in reports, such as "two or more at once".
[[nodiscard]] std::string_view title_of(TimeClass kind) noexcept;

/// Returns what was recorded, in a few words: `train.py, rank 0 of 16 (run.json.gz, Kineto)`.
[[nodiscard]] std::string title_of(Recording const& recording);
/// Returns the name of a device in texts: `GPU 0, NVIDIA H100 80GB HBM3, 132 multiprocessors`.
[[nodiscard]] std::string title_of(Device const& device);
/// Returns the name of a stream in texts, such as `stream 20` or `stream 7 (copies)`.
[[nodiscard]] std::string title_of(Recording const& recording, Stream const& stream);
/// Returns the notes of the report, and then those of the recording, as sentences.
[[nodiscard]] std::vector<std::string> notes_of(Explained const& explained);
/// Returns what a fix takes off the window, such as `30.0 µs (100 µs → 70.0 µs, 1.43x)`.
[[nodiscard]] std::string gain_text(Prediction const& prediction);
/// Returns the least and the largest gain, such as `between nothing and 40.0 µs`; empty without a
/// range.
[[nodiscard]] std::string gain_range_text(Prediction const& prediction);
/// Returns how the findings are ordered, for their title: empty for less than two.
[[nodiscard]] std::string_view order_title(std::vector<Finding> const& findings);
/// Returns what the findings' losses and gains mean, how the findings are ordered, and which of
/// several has the largest gain.
[[nodiscard]] std::string order_text(std::vector<Finding> const& findings);
/// Returns the estimated window without recording; empty if it would be about as long.
[[nodiscard]] std::string unrecorded_window_text(Report const& report);

/// Returns the number of a device's activities in the report's window, and of the streams that have
/// any.
struct DeviceCounts {
  std::size_t activities = 0;
  std::size_t streams = 0;
};
[[nodiscard]] DeviceCounts counts_of(Explained const& explained, Index device);

/// Returns the report with one device's part alone. `number` is the driver's number. Throws
/// std::invalid_argument that lists the devices if the report has none of that number.
[[nodiscard]] Report only_device(Recording const& recording, Report const& report, int number);

}  // namespace msstream::overlap
