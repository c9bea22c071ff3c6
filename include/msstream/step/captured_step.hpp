// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/compiled_once.hpp>
#include <msstream/step/step_memory.hpp>
#include <msstream/tensor/issue.hpp>

#include <mutex>
#include <source_location>
#include <stdexcept>
#include <utility>
#include <vector>

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
      : CapturedStep(device, std::forward<F>(function), StepMemory<R>::of_one(device)) {}
  /// Captures the operations of `function` in memory that other steps of the device may share.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function, StepMemory<R> const& memory)
      : device_(device),
        memory_(memory.memory_),
        captured_(capture(*device.state(), memory_, std::forward<F>(function))) {}
  CapturedStep(CapturedStep const&) = delete;
  CapturedStep& operator=(CapturedStep const&) = delete;
  ~CapturedStep() {
    if (device_.context()->home.is_left()) {
      return;
    }
    auto& captures = device_.state()->memory.captures();
    auto const last = replays_.log.writes();
    // The access records of the memory include the last replay, so that later users of the memory
    // are ordered after it.
    captured_.uses.clear();
    try {
      captures.retire(captured_.work, last);
    } catch (...) {
      for (auto const& replay : last) {
        device_.context()->tracker->finish(replay);
      }
    }
  }

  /// Issues the step as the operation "replay" and returns its position. It is issued to the group
  /// of the step's StepMemory, if that has one; otherwise to the group that a pool's assignment
  /// gives "replay"; otherwise to the current group.
  ///
  /// Throws std::logic_error inside a capture on the device, if a tensor that the step writes has
  /// been frozen, and if the step copies from a PinnedArray that only captured steps still own and
  /// that none of them writes. `issued_at` is used in the reports of a checking runtime, for which
  /// the operation has the uses of all its parts.
  order::Position replay(std::source_location issued_at = std::source_location::current()) {
    auto& state = *device_.state();
    state.context->home.require_here();
    if (memory::Capture<R>::current(*state.context) != nullptr) {
      throw std::logic_error("a captured step is replayed inside a capture on its device");
    }
    AccessSet accesses;
    for (auto const& use : captured_.uses) {
      memory::require_owner(use);
      if (!use.block->immutable) {
        accesses.add(use.block->record, use.mode);
      } else if (use.mode == AccessMode::write) {
        throw std::logic_error("a captured step writes a tensor that has become immutable");
      }
    }
    accesses.add(replays_, AccessMode::write);  // the destructor waits for it
    accesses.add(memory_->launches, AccessMode::write);
    constexpr char const* name = "replay";
    auto& group = group_of_replay(state, name);
    auto const submit = [&] {
      return group.submit(
          name,
          StreamKind::compute,
          accesses,
          NativeWork{[runtime = state.context->runtime.get(),
                      graph = *captured_.work->graph](typename R::native_stream native) {
            runtime->launch_graph(graph, native);
          }},
          describe(name, group, state, issued_at));
    };
    auto const observer = state.issue_observer.current();
    if (observer == nullptr) [[likely]] {
      return submit();
    }
    InsideWork::refuse(name);
    std::vector<memory::Block<R>*> read;
    std::vector<memory::Block<R>*> written;
    for (auto const& use : captured_.uses) {
      (use.mode == AccessMode::write ? written : read).push_back(&*use.block);
    }
    std::lock_guard const order(observer->order());
    auto const position = submit();
    observer->issued({name, group, StreamKind::compute, position, read, written});
    return position;
  }

 private:
  using Captured = typename memory::Capture<R>::Captured;

  template <class F>
  static Captured capture(DeviceState<R>& state,
                          std::shared_ptr<memory::CaptureMemory<R>> const& memory,
                          F&& function) {
    state.memory.captures().sweep();
    memory::Capture<R> open(state.context, memory);
    open.if_not_ended(std::forward<F>(function));
    return open.end();
  }
  [[nodiscard]] Observed<R> describe(char const* name,
                                     StreamGroup<R>& group,
                                     DeviceState<R> const& state,
                                     std::source_location issued_at) const {
    if constexpr (ObservingRuntime<R>) {
      auto const* const scope = StreamScope<R>::current(*state.context);
      return group.describe(name,
                            StreamKind::compute,
                            {},
                            issued_at,
                            scope != nullptr ? scope->opened_at() : std::source_location(),
                            observe::parts_of(*state.context->runtime, *captured_.work->graph));
    } else {
      return {};
    }
  }
  [[nodiscard]] StreamGroup<R>& group_of_replay(DeviceState<R>& state, char const* name) const {
    if (auto* const only = memory_->libraries().lender()) {
      return *only;
    }
    auto const placement = state.context->placement.current();
    return placement == nullptr ? state.current_group()
                                : state.group_for(*placement, name, [] { return nullptr; });
  }

  Device<R> device_;
  std::shared_ptr<memory::CaptureMemory<R>> memory_;
  Captured captured_;
  AccessRecord replays_;
};

template <Runtime R, class F>
CapturedStep(Device<R> const&, F&&) -> CapturedStep<R>;

MSSTREAM_COMPILED_ONCE(class CapturedStep<DefaultRuntime>);

}  // namespace msstream
