// SPDX-License-Identifier: Apache-2.0
#include "serve/launch_event.hpp"

#include "stream/event.hpp"
#include "stream/stream_group.hpp"

#include <memory>

namespace msstream::serve {

void LaunchEvent::take(detail::StreamContext& context, order::Position position) {
  recorded_ = context.tracker->event_at(position);
}

void LaunchEvent::take_all_of(detail::StreamGroup& group) {
  auto& compute = group.compute();
  if (!group.merged()) {
    compute.wait(group.h2d().record());
    compute.wait(group.d2h().record());
  }
  recorded_ = group.context()->tracker->event_at(compute.mark());
}

bool LaunchEvent::query(std::shared_ptr<detail::StreamContext> const& context) const {
  return detail::query_event(*context, *recorded_);
}

}  // namespace msstream::serve
