// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/step/detail/any_captured_step.hpp>
#include <msstream/step/step_memory.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>

#include <source_location>
#include <utility>

namespace msstream {

/// A step that is captured once and then replayed as one operation. A replay costs the host one
/// launch, however many operations, groups and tensors the step consists of.
///
///     train(batch);  // once without capture, which creates what is created on first use
///     CapturedStep step(device, [&] { loss = train(batch); });
///     for (...) {
///       copy(batch, next);  // in place: a replay reads the tensors that were captured
///       step.replay();
///     }
///
/// The operations that `function` issues to the device are captured and do not run. `function` may
/// use any groups, create and drop tensors, and call anything that issues operations. Like any
/// operation, a replay is ordered after earlier uses of all tensors that it reads or writes, and
/// before later uses. Each replay writes the tensors that were created inside and still live. Host
/// code inside `function` runs once, at capture. Inside `function`, a wait for captured work and an
/// upload that each replay would repeat, such as to_device(), throw std::logic_error. Other threads
/// may issue work meanwhile, which is not captured; they may use tensors created inside once the
/// constructor has returned.
///
/// The step owns references to the outside tensors that it uses, and the memory of the tensors
/// created inside. Nothing else may use that memory, although most of it is unused between the
/// operations; several steps may share it through a StepMemory. The destructor does not block: the
/// memory is released once the last replay is complete and a thread waits for the device, runs out
/// of memory, or captures. Thread-safe except for destruction.
template <CapturingRuntime R = DefaultRuntime>
class CapturedStep {
 public:
  /// Captures the operations of `function`, in memory of its own. Throws what `function` throws and
  /// what a capture throws. Throws std::logic_error inside the capture of another step on the
  /// device, and, with the operation's name, for an operation that may not be captured because its
  /// work waits for the device. After an exception nothing remains of the capture.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function)
      : CapturedStep(
            device, std::forward<F>(function), detail::AnyStepMemory::of_one(device.engine())) {}
  /// Captures the operations of `function` in memory that other steps of the device may share.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function, StepMemory<R> const& memory)
      : CapturedStep(device, std::forward<F>(function), memory.engine()) {}
  CapturedStep(CapturedStep const&) = delete;
  CapturedStep& operator=(CapturedStep const&) = delete;

  /// Issues the step as the operation "replay" and returns its position. It is issued to the group
  /// of the step's StepMemory, if that has one; otherwise to the group that a pool's assignment
  /// gives "replay"; otherwise to the current group.
  ///
  /// Throws std::logic_error inside a capture on the device, if a tensor that the step writes has
  /// been frozen, and if the step copies from a PinnedArray that only captured steps still own and
  /// that none of them writes. `issued_at` is used in the reports of a checking runtime, for which
  /// the operation has the uses of all its parts.
  order::Position replay(std::source_location issued_at = std::source_location::current()) {
    return any_.replay(issued_at);
  }
  /// Returns the graph for launch_graph() of the runtime. Such launches are not tracked: the caller
  /// must order them with all other uses of the step's tensors and memory, and the last one must be
  /// complete before the step is destroyed.
  [[nodiscard]] typename R::native_graph native() const noexcept {
    return static_cast<typename R::native_graph>(any_.native());
  }

 private:
  template <class F>
  CapturedStep(Device<R> const& device, F&& function, detail::AnyStepMemory const& memory)
      : any_(device.engine(), memory, [&] { static_cast<void>(std::forward<F>(function)()); }) {}

  detail::AnyCapturedStep any_;
};

template <Runtime R, class F>
CapturedStep(Device<R> const&, F&&) -> CapturedStep<R>;

}  // namespace msstream
