// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/wait_arrows.hpp"

#include <algorithm>

namespace msstream::overlap {
namespace {

struct Issued {
  Index call;
  Index activity;
};

}  // namespace

std::vector<WaitArrow> wait_arrows(Recording const& recording) {
  std::vector<std::vector<Issued>> issued(recording.streams.size());
  for (std::size_t i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    if (activity.call != kNone) {
      issued.at(activity.stream).push_back({activity.call, static_cast<Index>(i)});
    }
  }
  for (auto& stream : issued) {
    std::ranges::stable_sort(stream, {}, &Issued::call);
  }
  std::vector<WaitArrow> arrows;
  for (auto const& sync : recording.syncs) {
    bool const is_known = sync.kind == SyncKind::wait && sync.call != kNone &&
                          sync.stream != kNone && sync.record_call != kNone &&
                          sync.record_stream != kNone;
    if (!is_known) {
      continue;
    }
    auto const& recorded = issued.at(sync.record_stream);
    auto const& waiting = issued.at(sync.stream);
    auto const after_record =
        std::ranges::lower_bound(recorded, sync.record_call, {}, &Issued::call);
    auto const after_wait = std::ranges::upper_bound(waiting, sync.call, {}, &Issued::call);
    if (after_record != recorded.begin() && after_wait != waiting.end()) {
      arrows.push_back({std::prev(after_record)->activity, after_wait->activity});
    }
  }
  for (auto const& dependency : recording.dependencies) {
    arrows.push_back({dependency.before, dependency.after});
  }
  std::ranges::sort(arrows);
  arrows.erase(std::unique(arrows.begin(), arrows.end()), arrows.end());
  return arrows;
}

}  // namespace msstream::overlap
