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

/// A step that is captured once and then replayed as one operation: for the host one launch,
/// however many operations, groups and tensors it is made of.
///
///     train(batch);  // once as usual: what is made when first needed is then there
///     CapturedStep step(device, [&] { loss = train(batch); });
///     for (...) {
///       copy(batch, next);  // in place: a replay reads the tensors that were captured
///       step.replay();
///     }
///
/// What `function` issues to the device does not run; it may use any groups, make and drop tensors,
/// and have anything in it that issues operations. A replay comes after the earlier uses of all
/// that it reads and writes, and later uses come after it, like with any operation; tensors made
/// inside that live on are written by each replay. What the host does inside, it does once. It
/// cannot wait inside for what is captured, nor upload elements that each replay would copy again,
/// as to_device() does: std::logic_error. Work of other threads goes on
/// meanwhile and is not captured; tensors made inside are theirs once the constructor has returned.
///
/// The step keeps what it uses: tensors of outside that it names, and the memory of those made
/// inside, which nobody else gets, though most of it is free between the operations; several steps
/// may share that, see StepMemory. Going does not block: the memory goes back when the last replay
/// is over and somebody waits for the device, finds no memory, or captures. Thread-safe but for
/// going.
template <CapturingRuntime R = DefaultRuntime>
class CapturedStep {
 public:
  /// Throws what `function` throws and what a capture throws; std::logic_error inside the capture
  /// of another step on the device, and for an operation that may not be captured, by its name: one
  /// whose work waits for the device. Nothing is left of the capture then.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function)
      : CapturedStep(device, std::forward<F>(function), StepMemory<R>::of_one(device)) {}
  /// In memory that other steps of the device may share.
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
    // The records of the memory have the last replay, too: whoever gets it comes after that.
    captured_.uses.clear();
    try {
      captures.retire(captured_.work, last);
    } catch (...) {
      for (auto const& replay : last) {
        device_.context()->tracker->finish(replay);
      }
    }
  }

  /// Issues the step as the operation "replay": to the group of its memory, if that has one, to the
  /// group of that name in a pool's assignment, else to the current group. Throws std::logic_error
  /// inside a capture on the device, when a tensor that the step writes has been frozen, and when
  /// nobody but captured steps has a PinnedArray any more that the step copies from, and none of
  /// them writes it. `issued_at` is for the
  /// reports of a checking runtime, to which the operation uses what its parts use.
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
    accesses.add(replays_, AccessMode::write);  // which the destructor waits for
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
