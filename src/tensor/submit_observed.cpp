// SPDX-License-Identifier: Apache-2.0
#include "tensor/submit_observed.hpp"

#include <mutex>
#include <source_location>

namespace msstream::detail {

OperationHandle PlacedOperation::describe() const {
  auto const* const scope = OpenScope::current(*device.context);
  return group.describe(name,
                        stream,
                        uses.memory(),
                        issued_at,
                        scope != nullptr ? scope->opened_at() : std::source_location(),
                        uses.parts());
}

order::Position submit_recorded(PlacedOperation const& operation,
                                AccessSet& accesses,
                                WorkRef work,
                                IssueObserver& observer) {
  // Throws inside the work of an operation, where waiting for the lock would never end: that
  // operation's thread holds it.
  InsideWork::refuse(operation.name);
  std::lock_guard const order(observer.order());
  auto const reads = operation.uses.blocks(AccessMode::read);
  auto const writes = operation.uses.blocks(AccessMode::write);
  auto const position = operation.submit(accesses, work);
  if (!operation.group.captured()) {
    observer.issued({operation.name, operation.group, operation.stream, position, reads, writes});
  }
  return position;
}

}  // namespace msstream::detail
