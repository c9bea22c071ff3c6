// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "stream/inside_work.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>

#include <memory>
#include <utility>

namespace msstream::detail {

namespace {

std::shared_ptr<DeviceState> make_state(std::shared_ptr<Backend> runtime,
                                        EngineOptions const& options) {
  return {new DeviceState(std::move(runtime), options), [](DeviceState* state) {
            if (state->context->home.is_left()) {
              HomeProcess::keep(std::shared_ptr<void const>(std::shared_ptr<void>(), state));
              return;
            }
            // The destructor of a device's state waits for streams. If its last owner is work on a
            // stream, the stream would wait for itself.
            RuntimeThread::call_outside([state] { delete state; });
          }};
}

}  // namespace

DeviceHandle::DeviceHandle(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {
  state_->add_handle();
}
DeviceHandle::~DeviceHandle() {
  if (state_->context->home.is_left()) {
    HomeProcess::keep(state_);  // kept alive: the state and its memory in use own each other
  } else {
    state_->remove_handle();
  }
}

AnyDevice::AnyDevice(std::shared_ptr<Backend> runtime, EngineOptions const& options)
    : AnyDevice(make_state(std::move(runtime), options)) {}

std::shared_ptr<StreamContext> const& AnyDevice::context() const noexcept {
  return state()->context;
}
Backend& AnyDevice::backend() const noexcept {
  return *context()->runtime;
}
std::shared_ptr<DependencyTracker> const& AnyDevice::tracker() const noexcept {
  return context()->tracker;
}
std::shared_ptr<StreamGroup> AnyDevice::default_group() const {
  return here().default_group().shared_from_this();
}
std::shared_ptr<StreamGroup> AnyDevice::current_group() const {
  return state()->current_group().shared_from_this();
}

WaitCounts AnyDevice::wait_counts() const {
  return tracker()->wait_counts();
}
std::uint64_t AnyDevice::operation_count() const {
  return tracker()->operation_count();
}
MemorySnapshot AnyDevice::memory_snapshot() const {
  return here().memory.snapshot();
}
MemoryStatistics AnyDevice::memory_statistics() const {
  return here().memory.statistics();
}
MemoryStatistics AnyDevice::pinned_memory_statistics() const {
  return here().pinned.statistics();
}
void AnyDevice::return_cached_memory() const {
  here().memory.return_cached_memory();
  here().pinned.return_cached_memory();
}
std::vector<ScopeMemory> AnyDevice::memory_by_scope() const {
  return here().memory.use_by_scope();
}
std::vector<StreamMemory> AnyDevice::memory_by_stream() const {
  return here().memory.use_by_stream();
}

void AnyDevice::synchronize(order::Position position) const {
  InsideWork::refuse_wait("Device::synchronize");
  static_cast<void>(here());
  require(
      tracker()->has(position),
      "Device::synchronize: a position of another tracker; expected one that issue() or replay() "
      "returned for a device that shares this one's tracker");
  tracker()->synchronize(position);
  context()->run_checks();
}
void AnyDevice::start_spans() const {
  context()->spans.start(state()->current_group().compute().native());
  context()->span_waits.begin();
}
trace::Timeline AnyDevice::stop_spans() const {
  InsideWork::refuse_wait("Device::stop_spans");
  auto& own = *here().context;
  auto timeline = own.spans.stop();
  return trace::Timeline(std::move(timeline).spans(), own.span_waits.end());
}

DeviceState& AnyDevice::here() const {
  context()->home.require_here();
  return *state();
}

}  // namespace msstream::detail
