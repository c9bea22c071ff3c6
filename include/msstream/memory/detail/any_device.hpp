// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/engine_options.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/stream/wait_counts.hpp>
#include <msstream/trace/timeline.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::detail {

struct DeviceState;
struct StreamContext;
class StreamGroup;

/// The handle that all copies of a Device share. Its destructor notifies the device's state that
/// the last copy is gone.
class DeviceHandle {
 public:
  explicit DeviceHandle(std::shared_ptr<DeviceState> state);
  DeviceHandle(DeviceHandle const&) = delete;
  DeviceHandle& operator=(DeviceHandle const&) = delete;
  ~DeviceHandle();

  [[nodiscard]] std::shared_ptr<DeviceState> const& state() const noexcept { return state_; }

 private:
  std::shared_ptr<DeviceState> state_;
};

/// The implementation of Device<R>, compiled once for all runtimes; Device documents the functions.
/// Never null.
class AnyDevice {
 public:
  AnyDevice(std::shared_ptr<Backend> runtime, EngineOptions const& options);
  explicit AnyDevice(std::shared_ptr<DeviceState> state)
      : handle_(std::make_shared<DeviceHandle const>(std::move(state))) {}

  [[nodiscard]] std::shared_ptr<DeviceState> const& state() const noexcept {
    return handle_->state();
  }
  [[nodiscard]] std::shared_ptr<StreamContext> const& context() const noexcept;
  [[nodiscard]] Backend& backend() const noexcept;
  [[nodiscard]] std::shared_ptr<DependencyTracker> const& tracker() const noexcept;
  [[nodiscard]] std::shared_ptr<StreamGroup> default_group() const;
  [[nodiscard]] std::shared_ptr<StreamGroup> current_group() const;

  [[nodiscard]] WaitCounts wait_counts() const;
  [[nodiscard]] std::uint64_t operation_count() const;
  [[nodiscard]] MemorySnapshot memory_snapshot() const;
  [[nodiscard]] MemoryStatistics memory_statistics() const;
  [[nodiscard]] MemoryStatistics pinned_memory_statistics() const;
  void return_cached_memory() const;
  [[nodiscard]] std::vector<ScopeMemory> memory_by_scope() const;
  [[nodiscard]] std::vector<StreamMemory> memory_by_stream() const;

  void synchronize(order::Position position) const;
  void start_spans() const;
  [[nodiscard]] trace::Timeline stop_spans() const;

 private:
  /// Returns the device's state. Throws std::logic_error if the device is a copy in a child of
  /// fork(), or its driver has ended.
  [[nodiscard]] DeviceState& here() const;

  std::shared_ptr<DeviceHandle const> handle_;
};

}  // namespace msstream::detail
