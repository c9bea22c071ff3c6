// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>
#include <msstream/memory/allocator.hpp>
#include <msstream/memory/issue_observer.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/runtime_thread.hpp>
#include <msstream/runtime/settled_at_exit.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream {

template <Runtime R = DefaultRuntime>
struct DeviceOptions {
  typename R::Options runtime = {};
  /// Whether to skip a wait whose order is already guaranteed. If false, every hazard waits.
  bool reduce_waits = env::flag("MSSTREAM_REDUCE_WAITS", true);
  /// A function that is called with a sentence for every elided wait. For debugging.
  std::function<void(std::string const&)> explain_waits = {};
  AllocatorOptions memory = {};
  /// The precision of float32 matrix products. tf32 is for training that tolerates it.
  MatmulPrecision matmul_precision =
      env::choice("MSSTREAM_MATMUL_PRECISION",
                  MatmulPrecision::float32,
                  {{"float32", MatmulPrecision::float32}, {"tf32", MatmulPrecision::tf32}});
  /// The number of bytes that the matrix products of each stream group may use besides their
  /// tensors, such as for sums in parts. Another value may change the bits of results.
  std::size_t workspace_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_WORKSPACE_BYTES", std::int64_t{4} << 20, 0, std::int64_t{1} << 32));
  /// The tracker of another device, to order work across the two devices.
  std::shared_ptr<DependencyTracker<R>> tracker = nullptr;
};

/// The state that a Device and everything made from it own together.
template <Runtime R = DefaultRuntime>
struct DeviceState : std::enable_shared_from_this<DeviceState<R>> {
  explicit DeviceState(DeviceOptions<R> const& options)
      : context(make_at_home<StreamContext<R>>(
            HomeProcess(life_of<R>),
            options.runtime,
            options.tracker != nullptr ? options.tracker
                                       : std::make_shared<DependencyTracker<R>>(TrackerOptions{
                                             options.reduce_waits, options.explain_waits}),
            LibraryOptions{options.workspace_bytes, options.matmul_precision})),
        memory(context, options.memory),
        pinned(context, options.memory) {
    settle_at_exit<R>(
        context, SettleOrder::streams, [](StreamContext<R>& ending) { ending.settle(); });
  }

  /// Returns the group of work that is issued outside every scope; made at the first call.
  StreamGroup<R>& default_group() {
    auto* made = default_group_made_.load(std::memory_order_acquire);
    if (made == nullptr) [[unlikely]] {
      // Does not use std::call_once: where that is pthread_once, an exception leaves it locked.
      std::lock_guard const guard(default_group_mutex_);
      if (default_group_ == nullptr) {
        default_group_ = StreamGroup<R>::make(context, -1);
      }
      made = default_group_.get();
      default_group_made_.store(made, std::memory_order_release);
    }
    return *made;
  }
  /// Returns the group of the calling thread's next operation.
  StreamGroup<R>& current_group() {
    context->home.require_here();
    auto const* const scope = StreamScope<R>::current(*context);
    return here(scope != nullptr ? *scope->group() : default_group());
  }
  /// Returns the group of the operation with this name, if a pool places operations. Calls
  /// `of_inputs()` if neither the name nor a scope decides; null means that the inputs do not
  /// decide.
  template <class OfInputs>
  StreamGroup<R>& group_for(Placement<R> const& placement, char const* name, OfInputs&& of_inputs) {
    auto* group = placement.by_name(name);
    if (group == nullptr && placement.propagates() &&
        StreamScope<R>::current(*context) == nullptr) {
      group = std::forward<OfInputs>(of_inputs)();
    }
    placement.note_latest(name, group);
    return group != nullptr ? here(*group) : current_group();
  }
  /// Allocates device memory for the calling thread, chosen so that the group that is likely to use
  /// it first need not wait for it. If a pool places operations, that is the group predicted for
  /// the thread's next operation from its earlier ones; otherwise the current group. `self` is this
  /// state. Throws OutOfMemory.
  [[nodiscard]] memory::BlockRef<R> allocate(std::size_t bytes,
                                             StreamKind first_use,
                                             std::shared_ptr<DeviceState> const& self) {
    context->home.require_here();
    auto const placement = context->placement.current();  // keeps the groups alive
    auto* const expected = placement != nullptr ? placement->expected() : nullptr;
    auto& group = expected != nullptr ? here(*expected) : current_group();
    return memory.allocate(bytes, group.stream(first_use).slot(), self);
  }
  /// Returns the group itself, or its twin if the calling thread captures.
  StreamGroup<R>& here(StreamGroup<R>& group) {
    if constexpr (CapturingRuntime<R>) {
      if (auto* const capture = memory::Capture<R>::current(*context)) [[unlikely]] {
        return capture->twin_of(group);
      }
    }
    return group;
  }

  /// Returns the device's only object of type T; made at the first call.
  template <class T>
  T& attachment() {
    context->home.require_here();
    std::lock_guard const guard(attachments_mutex_);
    auto& held = attachments_[std::type_index(typeid(T))];
    if (held == nullptr) {
      held = std::make_shared<T>(*this);
    }
    return *static_cast<T*>(held.get());
  }
  /// Adds a check, which may use the device's attachments: see StreamContext.
  void add_check(std::function<void()> check) { context->add_check(std::move(check)); }
  /// Runs the checks after the host has waited for the device through a tensor, and releases
  /// unneeded memory. Throws the failure of a launch thread, and any exception of a check.
  void run_checks() {
    context->home.require_here();
    context->run_checks();
    memory.release_unneeded();
    pinned.release_unneeded();
  }

  /// Adds a handle, one for a Device with its copies. After the last is removed, only memory in use
  /// keeps the device alive.
  void add_handle() { change_handles(1); }
  void remove_handle() { change_handles(-1); }

  std::shared_ptr<StreamContext<R>> context;
  /// The observer of a step that is being recorded.
  Hook<IssueObserver<R>> issue_observer;

 private:
  void change_handles(int by) {
    if (context->home.is_left()) {
      return;
    }
    std::lock_guard const guard(handles_mutex_);
    handles_ += by;
    bool const abandoned = handles_ == 0;
    if (abandoned || (by > 0 && handles_ == 1)) {
      memory.set_abandoned(abandoned);
      pinned.set_abandoned(abandoned);
    }
  }

  std::mutex handles_mutex_;
  int handles_ = 0;
  // Declared before the allocators, whose destructors wait for all work on their memory:
  // attachments outlive that work.
  std::mutex attachments_mutex_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> attachments_;
  /// Ends the checks after all work on the device's memory, before the attachments are destroyed.
  struct ChecksEnd {
    ~ChecksEnd() { context.end_checks(); }
    StreamContext<R>& context;
  } checks_end_{*context};

 public:
  StreamAwareAllocator<R> memory;
  PinnedAllocator<R> pinned;

 private:
  std::mutex default_group_mutex_;
  std::shared_ptr<StreamGroup<R>> default_group_;
  std::atomic<StreamGroup<R>*> default_group_made_{nullptr};
};

/// A GPU or the host runtime: the root from which everything is made. Copies refer to the same
/// device, and whatever was made from it keeps it alive: there is no wrong order of destruction.
/// Thread-safe.
///
/// `Device device;` uses CUDA if the build has it, otherwise the host; `Device<Host> device;`
/// chooses.
template <Runtime R = DefaultRuntime>
class Device {
 public:
  using runtime_type = R;

  explicit Device(DeviceOptions<R> const& options = {})
      : Device(
            std::shared_ptr<DeviceState<R>>(new DeviceState<R>(options), [](DeviceState<R>* state) {
              if (state->context->home.is_left()) {
                HomeProcess::keep(std::shared_ptr<void const>(std::shared_ptr<void>(), state));
                return;
              }
              // The state's destructor waits for streams, and its last owner may be work on a
              // stream.
              RuntimeThread::call_outside([state] { delete state; });
            })) {}
  explicit Device(std::shared_ptr<DeviceState<R>> state)
      : handle_(std::make_shared<Handle const>(std::move(state))) {}

  [[nodiscard]] std::shared_ptr<StreamContext<R>> const& context() const noexcept {
    return state()->context;
  }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& state() const noexcept {
    return handle_->state;
  }
  [[nodiscard]] StreamGroup<R>& default_group() const { return here()->default_group(); }
  [[nodiscard]] StreamGroup<R>& current_group() const { return state()->current_group(); }

  [[nodiscard]] WaitCounts wait_counts() const { return context()->tracker->wait_counts(); }
  [[nodiscard]] std::uint64_t operation_count() const {
    return context()->tracker->operation_count();
  }
  [[nodiscard]] MemorySnapshot memory_snapshot() const { return here()->memory.snapshot(); }
  [[nodiscard]] MemoryStatistics memory_statistics() const { return here()->memory.statistics(); }
  /// Returns the statistics of pinned memory.
  [[nodiscard]] MemoryStatistics pinned_memory_statistics() const {
    return here()->pinned.statistics();
  }
  /// Returns the memory in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> memory_by_scope() const {
    return here()->memory.use_by_scope();
  }
  /// Returns, for each stream, the memory in use, and how often it reused memory, took memory of
  /// other streams, and waited.
  [[nodiscard]] std::vector<StreamMemory> memory_by_stream() const {
    return here()->memory.use_by_stream();
  }

  /// Starts to record when operations run on the device. Each operation then costs two timed
  /// events.
  void start_spans() const { context()->spans.start(current_group().compute().native()); }
  /// Returns the times of operations since start_spans(). Blocks the host until they are complete.
  [[nodiscard]] trace::Timeline stop_spans() const {
    InsideWork::refuse_wait("Device::stop_spans");
    return here()->context->spans.stop();
  }

 private:
  /// Returns the state. Throws std::logic_error if the device is a copy in a child of fork(), or
  /// its driver has ended.
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& here() const {
    context()->home.require_here();
    return state();
  }

  struct Handle {
    explicit Handle(std::shared_ptr<DeviceState<R>> of) : state(std::move(of)) {
      state->add_handle();
    }
    ~Handle() {
      if (state->context->home.is_left()) {
        HomeProcess::keep(state);  // kept, because the state and its memory in use own each other
      } else {
        state->remove_handle();
      }
    }
    Handle(Handle const&) = delete;
    Handle& operator=(Handle const&) = delete;
    std::shared_ptr<DeviceState<R>> state;
  };

  std::shared_ptr<Handle const> handle_;
};

Device()->Device<DefaultRuntime>;

MSSTREAM_COMPILED_ONCE(struct DeviceState<DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class Device<DefaultRuntime>);

}  // namespace msstream
