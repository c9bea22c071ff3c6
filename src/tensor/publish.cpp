// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"

#include <msstream/tensor/publish.hpp>

#include <algorithm>
#include <memory>
#include <mutex>

namespace msstream::detail {

void publish_block(memory::BlockRef const& block) {
  auto const& context = *(*block->device)->context;
  context.home.require_here();
  order::PositionSet writes;
  {
    std::lock_guard const guard(block->record.lock);
    writes = block->record.log.writes();
  }
  for (auto const& position : writes) {
    static_cast<void>(context.tracker->event_at(position));
  }
}

NewWork::NewWork(std::shared_ptr<StreamGroup> const& group)
    : tracker_(group->context()->tracker), before_(tracker_->newest_positions()) {}

void NewWork::publish() const {
  for (auto const& position : tracker_->newest_positions()) {
    bool const is_old = std::any_of(
        before_.begin(), before_.end(), [&](auto const& old) { return old == position; });
    if (!is_old && !tracker_->is_captured(position)) {
      static_cast<void>(tracker_->event_at(position));
    }
  }
}

}  // namespace msstream::detail
