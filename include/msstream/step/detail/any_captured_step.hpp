// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/detail/position_set.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/step/detail/any_step_memory.hpp>

#include <functional>
#include <memory>
#include <source_location>

namespace msstream::detail {

/// The body of every CapturedStep<R>, whatever the runtime, which must be able to capture.
class AnyCapturedStep {
 public:
  AnyCapturedStep(AnyDevice const& device,
                  AnyStepMemory const& memory,
                  std::function<void()> const& function);
  AnyCapturedStep(AnyCapturedStep const&) = delete;
  AnyCapturedStep& operator=(AnyCapturedStep const&) = delete;
  ~AnyCapturedStep();

  order::Position replay(std::source_location issued_at);
  [[nodiscard]] NativeGraph native() const noexcept;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

/// Waits for the last replays of captured steps that are gone, and releases their memory. Returns
/// whether any of the replays was still running.
bool settle_replays(AnyDevice const& device, order::PositionSet const& replays);

}  // namespace msstream::detail
