// SPDX-License-Identifier: Apache-2.0
#include "memory/device_state.hpp"

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

struct NewWork::State {
  std::shared_ptr<DependencyTracker> tracker;
  order::PositionSet before;
};

NewWork::NewWork(std::shared_ptr<StreamGroup> const& group)
    : state_(new State{group->context()->tracker, group->context()->tracker->newest_positions()}) {}
NewWork::~NewWork() = default;

void NewWork::publish() const {
  auto& tracker = *state_->tracker;
  auto const& before = state_->before;
  for (auto const& position : tracker.newest_positions()) {
    bool const is_old =
        std::any_of(before.begin(), before.end(), [&](auto const& old) { return old == position; });
    if (!is_old && !tracker.is_captured(position)) {
      static_cast<void>(tracker.event_at(position));
    }
  }
}

}  // namespace msstream::detail
