// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/hook.hpp"
#include "memory/device/allocator.hpp"
#include "memory/device/issue_observer.hpp"
#include "stream/stream_group.hpp"
#include "stream/stream_scope.hpp"
#include "trace/counter.hpp"

#include <msstream/memory/detail/engine_options.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>

namespace msstream::detail {

/// The state of a device, owned together by the Device and everything made from it.
struct DeviceState : std::enable_shared_from_this<DeviceState> {
  DeviceState(std::shared_ptr<Backend> runtime, EngineOptions const& options);

  /// Returns the stream group of work that is issued outside every scope. Makes the group at the
  /// first call.
  StreamGroup& default_group() {
    auto* const made = default_group_made_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_default_group();
  }
  /// Returns the stream group of the calling thread's next operation: that of its innermost scope,
  /// otherwise the default group.
  StreamGroup& current_group() {
    context->home.require_here();
    auto const* const scope = OpenScope::current(*context);
    return here(scope != nullptr ? *scope->group() : default_group());
  }
  /// Allocates device memory for the calling thread, chosen so that the group that is likely to use
  /// the memory first need not wait. If a pool places operations, that is the group predicted for
  /// the thread's next operation; otherwise the current group. `self` owns this state. Throws
  /// OutOfMemory.
  [[nodiscard]] memory::BlockRef allocate(std::size_t bytes,
                                          StreamKind first_use,
                                          std::shared_ptr<DeviceState> const& self);
  /// Returns the group itself, or its twin if the calling thread captures.
  StreamGroup& here(StreamGroup& group) {
    auto* const capture = OpenCapture::current(*context);
    return capture == nullptr ? group : capture->twin_of(group);
  }

  /// Returns the device's only object of type T. Makes the object at the first call.
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
  /// Adds a check, which may use the device's attachments. It is called after the host has waited
  /// for the device: see StreamContext::add_check().
  void add_check(std::function<void()> check) { context->add_check(std::move(check)); }
  /// Runs the checks after the host has waited for the device through a tensor, and releases
  /// unneeded memory. Throws the failure of a launch thread, or the exception of a check.
  void run_checks();

  /// Counts a Device and its copies as one handle. After the last handle is removed, only memory in
  /// use keeps the device alive.
  void add_handle() { change_handles(1); }
  void remove_handle() { change_handles(-1); }
  friend void note_free(DeviceState& device) noexcept;

  std::shared_ptr<StreamContext> context;
  /// The observer of the device's operations while a step is being recorded; otherwise off.
  Hook<IssueObserver> issue_observer;

 private:
  static constexpr std::chrono::microseconds kSamplePeriod{100};

  /// Tells a profiler how much memory is in use and reserved, if the last sample is `period` old.
  void sample_memory(std::chrono::nanoseconds period = kSamplePeriod);
  StreamGroup& make_default_group();
  void change_handles(int by);

  std::mutex handles_mutex_;
  int handles_ = 0;
  // The attachments are declared before the allocators, whose destructors wait for all work on
  // their memory, so that the attachments outlive that work.
  std::mutex attachments_mutex_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> attachments_;
  /// Ends the checks when all work on the device's memory is complete, and before the attachments
  /// are destroyed.
  struct ChecksEnd {
    ~ChecksEnd() { context.end_checks(); }
    StreamContext& context;
  } checks_end_{*context};

 public:
  StreamAwareAllocator memory;
  PinnedAllocator pinned;

 private:
  struct Counters {
    explicit Counters(std::string const& device)
        : live((device + " memory in use").c_str(), Counter::Unit::bytes),
          reserved((device + " memory reserved").c_str(), Counter::Unit::bytes) {}
    Counter live;
    Counter reserved;
    std::atomic<std::int64_t> sampled_ns{0};
  };
  std::unique_ptr<Counters> counters_;  ///< null unless a profiler listens
  std::mutex default_group_mutex_;
  std::shared_ptr<StreamGroup> default_group_;
  std::atomic<StreamGroup*> default_group_made_{nullptr};
};

}  // namespace msstream::detail
