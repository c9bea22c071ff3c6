// SPDX-License-Identifier: Apache-2.0
#include "tensor/submit_observed.hpp"

#include <mutex>
#include <source_location>

namespace msstream::detail {
namespace {

/// Describes the operation to an observing runtime. Returns null if the runtime does not observe.
OperationHandle describe(PlacedOperation const& operation) {
  auto const& context = *operation.device.context;
  if (!context.runtime->traits.observes) [[likely]] {
    return nullptr;
  }
  auto const* const scope = OpenScope::current(context);
  return operation.group.describe(operation.name,
                                  operation.stream,
                                  operation.uses.memory(),
                                  operation.issued_at,
                                  scope != nullptr ? scope->opened_at() : std::source_location(),
                                  operation.uses.parts());
}

}  // namespace

order::Position submit_observed(PlacedOperation const& operation,
                                AccessSet& accesses,
                                WorkRef work) {
  auto& group = operation.group;
  auto const submit = [&] {
    return group.submit(operation.name, operation.stream, accesses, work, describe(operation));
  };
  auto const observer = operation.device.issue_observer.current();
  if (observer == nullptr) [[likely]] {
    return submit();
  }
  InsideWork::refuse(
      operation.name);  // refused in an operation's work, whose thread holds the lock
  std::lock_guard const order(observer->order());
  auto const reads = operation.uses.blocks(AccessMode::read);
  auto const writes = operation.uses.blocks(AccessMode::write);
  auto const position = submit();
  if (!group.captured()) {
    observer->issued({operation.name, group, operation.stream, position, reads, writes});
  }
  return position;
}

}  // namespace msstream::detail
