// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/device_state.hpp"

#include <msstream/order/position.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/stream/detail/work_ref.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The memory that an operation uses, described on demand: the functions are called only if
/// something observes the operation, which is rare.
class ObservedUses {
 public:
  ObservedUses() = default;
  ObservedUses(ObservedUses const&) = delete;
  ObservedUses& operator=(ObservedUses const&) = delete;

  /// Returns the ranges of memory in use, for a runtime that observes operations (as Checked does).
  [[nodiscard]] virtual std::vector<MemoryUse> memory() const = 0;
  /// Returns the captured operations if the operation launches a graph; otherwise null.
  [[nodiscard]] virtual OperationParts parts() const = 0;
  /// Returns the blocks that the operation reads or writes, whichever `mode` says, for the
  /// recording of a step.
  [[nodiscard]] virtual std::vector<memory::Block*> blocks(AccessMode mode) const = 0;

 protected:
  ~ObservedUses() = default;
};

/// An operation of a device whose group has been chosen.
struct PlacedOperation {
  /// Describes the operation to a runtime that observes operations (as Checked does).
  [[nodiscard]] OperationHandle describe() const;
  /// Submits the operation with StreamGroup::submit(), and describes it first if the runtime
  /// observes operations.
  order::Position submit(AccessSet& accesses, WorkRef work) const {
    OperationHandle described;
    if (device.context->runtime->traits.observes) [[unlikely]] {
      described = describe();
    }
    return group.submit(name, stream, accesses, work, std::move(described));
  }

  DeviceState& device;
  StreamGroup& group;
  char const* name;
  StreamKind stream;
  std::source_location issued_at;
  ObservedUses const& uses;
};

/// Submits the operation while no other thread submits an operation of the device, and reports it
/// to the observer, unless it is captured.
order::Position submit_recorded(PlacedOperation const& operation,
                                AccessSet& accesses,
                                WorkRef work,
                                IssueObserver& observer);

/// Submits the operation, and reports it to a runtime that observes operations, and to the device's
/// IssueObserver. Every operation of a device comes here, from issue() or from a replay of a
/// captured step.
inline order::Position submit_observed(PlacedOperation const& operation,
                                       AccessSet& accesses,
                                       WorkRef work) {
  auto const observer = operation.device.issue_observer.current();
  if (observer != nullptr) [[unlikely]] {
    return submit_recorded(operation, accesses, work, *observer);
  }
  return operation.submit(accesses, work);
}

}  // namespace msstream::detail
