// SPDX-License-Identifier: Apache-2.0
// Counts, for each stream, the work that the host had issued and the device had not done yet.
#include "overlap/find/host.hpp"
#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace msstream::overlap {

void Host::find_latest_ends() {
  std::vector<Index> by_issue(issue_times_.size());
  std::iota(by_issue.begin(), by_issue.end(), Index{0});
  std::ranges::stable_sort(by_issue, {}, [&](Index i) { return issue_times_[i]; });
  latest_ends_.reserve(by_issue.size());
  Ns latest = 0;
  for (auto const i : by_issue) {
    latest = std::max(latest, program_.activity(i).time.end);
    latest_ends_.push_back(latest);
  }
}

bool Host::has_open_work(Ns at) const {
  auto const issued = std::ranges::upper_bound(issue_times_, at) - issue_times_.begin();
  return issued > 0 && latest_ends_[static_cast<std::size_t>(issued - 1)] > at;
}

Ns Host::long_launch() const noexcept {
  return std::max(2 * tolerance::kIssue, 4 * usual_launch_);
}

/// Finds when calls issued work and when it began, and with how many entries the queue is full.
void Host::find_queues() {
  auto const& recording = program_.recording();
  std::size_t events = 0;
  std::vector<Index> waiting;  // calls that took long
  for (Index call = 0; call < recording.calls.size(); ++call) {
    auto const& made = recording.calls[call];
    events += made.kind == CallKind::record_event || made.kind == CallKind::wait_event ? 1 : 0;
    if (auto const issued = program_.issued_by(call); !issued.empty()) {
      queued_.push_back(std::min(made.time.end, program_.issued(issued.front())));
      begun_.push_back(program_.activity(issued.front()).time.begin);
      if (made.time.length() >= long_launch()) {
        waiting.push_back(call);
      }
    }
  }
  if (queued_.size() < tolerance::kQueueDepth / 8) {
    return;
  }
  std::ranges::sort(queued_);
  std::ranges::sort(begun_);
  entries_ = 1 + static_cast<double>(events) / static_cast<double>(queued_.size());
  for (auto const call : waiting) {
    auto const entries = queued_at(recording.calls[call].time.begin);
    if (entries >= static_cast<double>(tolerance::kQueueDepth)) {
      full_queue_ = std::max(full_queue_, entries);
    }
  }
}

/// Returns how many entries of the launch queue have not begun at a time: of launches, and of
/// events as many as there are for each of them.
double Host::queued_at(Ns time) const {
  auto const queued = std::ranges::lower_bound(queued_, time) - queued_.begin();
  auto const begun = std::ranges::lower_bound(begun_, time) - begun_.begin();
  return entries_ * static_cast<double>(queued - begun);
}

/// Whether a call waited for room in the launch queue: it took long while many had not begun, or
/// longer than usual while about as many had not as when others took long.
bool Host::queue_is_full(Index call) const {
  constexpr double kNearlyFull = 0.97;
  auto const& time = program_.call(call).time;
  if (full_queue_ == 0 || 2 * time.length() < 3 * usual_launch_) {
    return false;
  }
  auto const entries = queued_at(time.begin);
  return entries >= kNearlyFull * full_queue_ ||
         (time.length() >= long_launch() && entries >= static_cast<double>(tolerance::kQueueDepth));
}

}  // namespace msstream::overlap
