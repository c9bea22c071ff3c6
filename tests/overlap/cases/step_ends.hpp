// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/cases/trace_builder.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::overlap::cases {

/// What the host does at the end of each step of a program.
enum class StepEnd : std::uint8_t {
  nothing,
  synchronize_device,
  synchronize_stream,  ///< the stream of the step's last kernel
  read_value,          ///< downloads 4 bytes from that stream, and synchronises it
};

/// While it lives, the first thread of each program that runs ends its steps in one way. The steps
/// are what the thread repeats, several of them at once if there are many.
class StepEnds {
 public:
  explicit StepEnds(StepEnd end) noexcept : before_(current_) { current_ = end; }
  ~StepEnds() { current_ = before_; }
  StepEnds(StepEnds const&) = delete;
  StepEnds& operator=(StepEnds const&) = delete;

  /// Returns a program with the ends of steps that are in force.
  [[nodiscard]] static TraceBuilder applied_to(TraceBuilder const& program);

 private:
  struct Repeated {
    std::size_t first = 0;
    std::size_t length = 0;
  };
  [[nodiscard]] static Repeated step_of(HostThread const& thread);

  static StepEnd current_;
  StepEnd before_;
};

}  // namespace msstream::overlap::cases
