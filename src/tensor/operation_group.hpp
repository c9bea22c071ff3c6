// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/device_state.hpp"

#include <concepts>
#include <memory>
#include <utility>

namespace msstream::detail {

/// The stream group that runs one operation of a device, or the group's twin if the calling thread
/// captures. If a pool places operations, keeps its groups alive until the operation is submitted.
class OperationGroup {
 public:
  /// Chooses the group by the operation's name, by the innermost scope, or by
  /// `of_inputs(placement)`, which returns null if the inputs do not decide; otherwise takes the
  /// default group. Calls `of_inputs` only if a pool propagates groups, and neither the name nor a
  /// scope decides.
  template <std::invocable<Placement const&> OfInputs>
  OperationGroup(DeviceState& device, char const* name, OfInputs&& of_inputs)
      : placement_(device.context->placement.current()),
        group_(placement_ == nullptr
                   ? device.current_group()
                   : place(device, *placement_, name, std::forward<OfInputs>(of_inputs))) {}
  /// Takes the group `fixed`. If it is null, chooses the group by the operation's name or by the
  /// innermost scope, otherwise takes the default group.
  OperationGroup(DeviceState& device, char const* name, StreamGroup* fixed)
      : placement_(fixed == nullptr ? device.context->placement.current() : nullptr),
        group_(fixed != nullptr        ? *fixed
               : placement_ == nullptr ? device.current_group()
                                       : place(device, *placement_, name, of_no_inputs)) {}
  OperationGroup(OperationGroup const&) = delete;
  OperationGroup& operator=(OperationGroup const&) = delete;

  [[nodiscard]] StreamGroup& operator*() const noexcept { return group_; }

 private:
  static StreamGroup* of_no_inputs(Placement const& /*placement*/) { return nullptr; }

  template <class OfInputs>
  static StreamGroup& place(DeviceState& device,
                            Placement const& placement,
                            char const* name,
                            OfInputs&& of_inputs) {
    auto* group = placement.by_name(name);
    if (group == nullptr && placement.propagates() &&
        OpenScope::current(*device.context) == nullptr) {
      group = std::forward<OfInputs>(of_inputs)(placement);
    }
    placement.note_latest(name, group);
    return group != nullptr ? device.here(*group) : device.current_group();
  }

  std::shared_ptr<Placement const> placement_;
  StreamGroup& group_;
};

}  // namespace msstream::detail
