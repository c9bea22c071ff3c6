// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/detail/backend.hpp>

#include <functional>
#include <memory>
#include <source_location>

namespace msstream::detail {

class CaptureMemory;

/// Makes memory that any number of captured steps share: the implementation of StepMemory<R>. If
/// `group` is not null, the steps are replayed on it. Throws std::invalid_argument for a group of
/// another device or of a capture.
[[nodiscard]] std::shared_ptr<CaptureMemory> make_step_memory(AnyDevice const& device,
                                                              std::shared_ptr<StreamGroup> group);

/// The implementation of CapturedStep<R>, compiled once for all runtimes that can capture.
class AnyCapturedStep {
 public:
  /// Captures the operations of `function` in memory that other steps share, or in memory of the
  /// step's own if `memory` is null.
  AnyCapturedStep(AnyDevice const& device,
                  std::shared_ptr<CaptureMemory> memory,
                  std::function<void()> const& function);
  AnyCapturedStep(AnyCapturedStep const&) = delete;
  AnyCapturedStep& operator=(AnyCapturedStep const&) = delete;
  ~AnyCapturedStep();

  order::Position replay(std::source_location issued_at);
  [[nodiscard]] NativeGraph native() const;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

/// Blocks the host until the given replays of captured steps are complete, and releases the memory
/// of steps that are destroyed. Returns whether any of the replays was still running.
bool settle_replays(AnyDevice const& device, order::PositionSet const& replays);

}  // namespace msstream::detail
