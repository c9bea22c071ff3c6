// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>

#include <functional>
#include <memory>

namespace msstream::detail {

struct OverlapContents;

/// A guard that records the operations of a device, and the calls of the host that issue them,
/// while it lives.
class StepWatch {
 public:
  /// Throws std::invalid_argument unless the numbers of steps are allowed.
  static void check(int warm_up, int steps);
  /// Returns the time of the machine's steady clock in ns.
  [[nodiscard]] static double steady_ns() noexcept;

  /// Begins to record, as StepRecording does. `now_ns` returns the time of the host, is called on
  /// any thread that issues operations, and must not throw.
  StepWatch(AnyDevice const& device, std::function<double()> now_ns);
  StepWatch(StepWatch const&) = delete;
  StepWatch& operator=(StepWatch const&) = delete;
  ~StepWatch();

  /// Notes that a step begins.
  void begin_step();
  /// Ends the recording, blocks the host until all work is complete, and explains what was
  /// recorded. Throws std::invalid_argument if that is no operation.
  [[nodiscard]] std::shared_ptr<OverlapContents const> finish();

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::detail
