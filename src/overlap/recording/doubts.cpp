// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/doubts.hpp"

#include "overlap/recording/counted.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

/// All other work takes a part of the recording that is smaller than one divided by this.
constexpr Ns kSmallPart = 100;
/// Recordings with less work have no usual length.
constexpr std::size_t kFewestActivities = 8;

std::string text_of(Recording const& recording, Activity const& activity) {
  return fmt::format("{} on {} at {} ms",
                     recording.names[activity.name],
                     recording.text_of_stream(recording.streams[activity.stream]),
                     ms_text(activity.time.begin));
}

void note_work_without_length(Recording& recording) {
  Counted without_length;
  for (auto const& activity : recording.activities) {
    if (activity.kind == ActivityKind::kernel && activity.time.length() == 0) {
      without_length.add([&] { return text_of(recording, activity); });
    }
  }
  without_length.note(recording.notes,
                      "kernel has no length, and counts as no time",
                      "kernels have no length, and count as no time");
}

/// Work that is far from all other work: nearly all of the recording is the time between.
void note_distant_work(Recording& recording) {
  auto const& all = recording.activities;
  auto const extent = recording.extent();
  if (all.size() < kFewestActivities || extent->length() <= 0) {
    return;
  }
  auto const least = extent->length() - extent->length() / kSmallPart;
  Ns until = all.front().time.end;
  for (std::size_t i = 1; i < all.size(); ++i) {
    auto const gap = all[i].time.begin - until;
    if (gap >= least) {
      bool const is_early = i < all.size() - i;
      auto const few = is_early ? i : all.size() - i;
      if (few > std::max<std::size_t>(all.size() / kSmallPart, 1)) {
        return;
      }
      Interval const others =
          is_early ? Interval{all[i].time.begin, extent->end} : Interval{extent->begin, until};
      recording.notes.push_back(
          fmt::format("the activity {} is {} {} all other work: if its time is wrong, --window {} "
                      "leaves it out",
                      text_of(recording, is_early ? all.front() : all[i]),
                      duration_text(gap),
                      is_early ? "before" : "after",
                      interval_text(others)));
      return;
    }
    until = std::max(until, all[i].time.end);
  }
}

/// An activity beside which all others are short.
void note_long_work(Recording& recording) {
  auto const& all = recording.activities;
  if (all.size() < kFewestActivities) {
    return;
  }
  auto const longest = std::ranges::max_element(
      all, {}, [](Activity const& activity) { return activity.time.length(); });
  Interval others{std::numeric_limits<Ns>::max(), std::numeric_limits<Ns>::min()};
  for (auto const& activity : all) {
    if (&activity != &*longest) {
      others.begin = std::min(others.begin, activity.time.begin);
      others.end = std::max(others.end, activity.time.end);
    }
  }
  if (others.length() < longest->time.length() / kSmallPart) {
    recording.notes.push_back(fmt::format(
        "the activity {} takes {}, and all other work is within {}: its duration may be "
        "wrong",
        text_of(recording, *longest),
        duration_text(longest->time.length()),
        duration_text(others.length())));
  }
}

/// Returns the end of all that happened on devices and in calls, apart from calls that go on while
/// their thread makes others, which `goes_on` has.
Ns end_of_all(Recording const& recording, std::vector<bool> const& goes_on) {
  Ns end = std::numeric_limits<Ns>::min();
  for (auto const& activity : recording.activities) {
    end = std::max(end, activity.time.end);
  }
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    end = goes_on[i] ? end : std::max(end, recording.calls[i].time.end);
  }
  return end;
}

}  // namespace

void note_doubtful_times(Recording& recording) {
  if (recording.activities.empty()) {
    return;
  }
  note_work_without_length(recording);
  note_distant_work(recording);
  note_long_work(recording);
  auto& calls = recording.calls;
  std::vector<Index> next(calls.size(), kNone);  // of the thread
  std::vector<Index> last(recording.threads.size(), kNone);
  std::vector<bool> goes_on(calls.size(), false);
  for (Index i = 0; i < calls.size(); ++i) {
    auto& before = last[calls[i].thread];
    if (before != kNone) {
      next[before] = i;
      goes_on[before] = calls[before].time.end > calls[i].time.begin;
    }
    before = i;
  }
  auto end = end_of_all(recording, goes_on);
  auto const begin = std::min(recording.activities.front().time.begin,
                              calls.empty() ? end : calls.front().time.begin);
  Counted doubted_calls;
  for (Index i = 0; i < calls.size(); ++i) {
    auto& time = calls[i].time;
    if (goes_on[i] && time.end > end) {
      auto const until = calls[next[i]].time.begin;
      doubted_calls.add([&] {
        return fmt::format("{}() at {} ms takes {}, and its thread makes its next call after {}",
                           recording.names[calls[i].name],
                           ms_text(time.begin),
                           duration_text(time.length()),
                           duration_text(until - time.begin));
      });
      time.end = until;
    } else {
      goes_on[i] = false;
    }
  }
  for (auto& sync : recording.syncs) {
    if (sync.call != kNone && goes_on[sync.call]) {
      sync.time.end = std::max(sync.time.begin, calls[sync.call].time.end);
    }
  }
  doubted_calls.note(recording.notes,
                     "call ends after all work, though its thread makes others: it counts until "
                     "the next one",
                     "calls end after all work, though their threads make others: they count until "
                     "the next one");
  for (auto const& range : recording.ranges) {
    end = std::max(end, range.time.begin);
  }
  Counted doubted_ranges;
  for (auto& range : recording.ranges) {
    // A host may go on for a while without calls.
    if ((range.time.end - end) / kSmallPart > end - begin) {
      doubted_ranges.add([&] {
        return fmt::format("{} at {} ms ends {} later",
                           recording.names[range.name],
                           ms_text(range.time.begin),
                           duration_text(range.time.end - end));
      });
      range.time.end = end;
    }
  }
  doubted_ranges.note(recording.notes,
                      "range ends long after all else, and counts until that",
                      "ranges end long after all else, and count until that");
}

}  // namespace msstream::overlap
