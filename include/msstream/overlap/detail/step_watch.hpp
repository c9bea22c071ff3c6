// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace msstream::detail {

struct OverlapContents;

/// A guard that records the operations of a device, and the calls of the host that issue them,
/// while it lives. On CUDA, CUPTI traces what runs, if it can be used; otherwise, operations are
/// timed by events.
class StepWatch {
 public:
  /// How the times of what runs are recorded. of_runtime: by CUPTI on CUDA, by events elsewhere.
  enum class Times : std::uint8_t { of_runtime, cupti, events };

  /// Throws std::invalid_argument unless the numbers of steps are allowed.
  static void check(int warm_up, int steps);
  /// Returns the time of the machine's steady clock in ns.
  [[nodiscard]] static double steady_ns() noexcept;

  /// Prepares a recording, before the steps that warm up. `now_ns` returns the time of the host, is
  /// called on any thread that issues operations, and must not throw.
  StepWatch(AnyDevice const& device,
            std::function<double()> now_ns,
            Times times = Times::of_runtime);
  StepWatch(StepWatch const&) = delete;
  StepWatch& operator=(StepWatch const&) = delete;
  ~StepWatch();

  /// Begins to record, as StepRecording does.
  void begin();
  /// Notes that a step begins.
  void begin_step();
  /// Ends the recording, blocks the host until all work is complete, and explains what was
  /// recorded. Throws std::invalid_argument if the steps issued no work, and std::runtime_error if
  /// CUPTI's trace cannot be read.
  [[nodiscard]] std::shared_ptr<OverlapContents const> finish();

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::detail
