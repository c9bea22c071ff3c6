// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::record {

/// Other ways to record, for measurements of what recording costs: internal, and may change at any
/// time. `tests/overlap/record/record_on_gpu.py --table` runs a program with each.
///
/// A trial is written as words with commas between them, in the variable
/// MSSTREAM_OVERLAP_TRIAL: "without=driver+sync,buffer-kib=1024".
struct Trial {
  /// The kinds that are not recorded: kernel, copy, fill, runtime, driver, launch-calls (of the
  /// runtime), sync, event, overhead, graph, stream.
  std::vector<std::string> without;
  std::size_t buffer_kib = 0;         ///< of each buffer for records; 0: the recorder's own choice
  std::size_t device_buffer_kib = 0;  ///< CUPTI's buffers on the device; 0: its own choice
  std::size_t device_buffers = 0;     ///< how many of them CUPTI makes ahead
  std::size_t flush_ms = 0;           ///< how often records are asked for; 0: the recorder's own
  std::size_t flush_period_ms = 0;    ///< how often CUPTI's thread hands records over
  std::size_t nice = 0;               ///< of the recorder's thread
  bool pinned = false;                ///< CUPTI's device buffers are in pinned memory
  bool one_buffer = false;            ///< the program's threads share one buffer
  bool discard = false;               ///< records are thrown away instead of written
  bool pthread_ids = false;     ///< threads have the numbers of pthread_self(), not of gettid()
  bool counter_clock = false;   ///< times come from the processor's counter
  bool hardware_trace = false;  ///< times of kernels come from hardware events
  bool no_client = false;       ///< the recorder does not subscribe to CUPTI's callbacks

  [[nodiscard]] bool leaves_out(std::string_view kind) const noexcept;

  /// Reads a trial; `unknown` gets the words that are none.
  [[nodiscard]] static Trial from(std::string_view text, std::vector<std::string>& unknown);
};

}  // namespace msstream::overlap::record
