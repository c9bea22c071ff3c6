// SPDX-License-Identifier: Apache-2.0
#include "stream/placement.hpp"

#include "stream/stream_group.hpp"

#include <optional>
#include <utility>

namespace msstream::detail {

Placement::Placement(std::optional<StreamAssignment> assignment, bool propagate, Groups groups)
    : assignment_(std::move(assignment)), propagate_(propagate), groups_(std::move(groups)) {
  for (auto const& group : groups_) {
    for (auto* const stream : {&group->compute(), &group->h2d(), &group->d2h()}) {
      auto const& slot = stream->slot();
      // Operation numbers up to `reserved` belong to earlier streams that had the same slot.
      streams_.push_back({slot.index, slot.reserved.load(), group.get()});
    }
  }
}

}  // namespace msstream::detail
