// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/collectives.hpp"

#include "overlap/find/tolerances.hpp"
#include "overlap/recording/collective_matches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace msstream::overlap {
namespace {

/// Tells collectives by the name of their kernels, where a recording says no more.
bool named_like_one(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("rccl");
}

constexpr std::size_t kFewest = 4;  ///< equal collectives that tell how long one needs

}  // namespace

Collectives::Collectives(Program const& program) : program_(program) {
  auto const& recording = program.recording();
  is_one_.assign(recording.activities.size(), false);
  std::vector<bool> named(recording.names.size());
  for (NameId name = 0; name < named.size(); ++name) {
    named[name] = named_like_one(recording.names[name]);
  }
  bool any = false;
  for (Index i = 0; i < is_one_.size(); ++i) {
    auto const& activity = recording.activities[i];
    is_one_[i] = activity.kind == ActivityKind::kernel &&
                 (activity.collective != kNone || named[activity.name]);
    any = any || is_one_[i];
  }
  if (any) {
    waited_.assign(is_one_.size(), 0);
    compare_equal_ones();
  }
}

bool Collectives::same_group(Index first, Index second) const {
  if (!is_one(first) || !is_one(second)) {
    return false;
  }
  auto const& activities = program_.recording().activities;
  auto const a = activities[first].collective;
  auto const b = activities[second].collective;
  if (a == kNone || b == kNone) {
    return activities[first].stream == activities[second].stream;
  }
  auto const& collectives = program_.recording().collectives;
  return collectives[a].group == collectives[b].group;
}

bool Collectives::same_kind(Index first, Index second) const {
  auto const& activities = program_.recording().activities;
  auto const a = activities[first].collective;
  auto const b = activities[second].collective;
  if (a == kNone || b == kNone) {
    return activities[first].name == activities[second].name;
  }
  auto const& collectives = program_.recording().collectives;
  return collectives[a].name == collectives[b].name;
}

bool Collectives::is_many_times(Index large, Index small) const {
  constexpr std::int64_t kManyTimes = 8;
  auto const& recording = program_.recording();
  auto const& a = recording.activities[large];
  auto const& b = recording.activities[small];
  if (a.collective != kNone && b.collective != kNone) {
    auto const bytes = recording.collectives[a.collective].bytes;
    auto const other = recording.collectives[b.collective].bytes;
    if (bytes != kUnknown && other != kUnknown) {
      return bytes >= kManyTimes * other;
    }
  }
  return a.time.length() - waited(large) >= kManyTimes * (b.time.length() - waited(small));
}

void Collectives::compare_equal_ones() {
  auto const& recording = program_.recording();
  std::map<std::tuple<NameId, NameId, NameId, std::int64_t>, std::vector<Index>> equal;
  for (Index i = 0; i < is_one_.size(); ++i) {
    if (is_one_[i] && recording.activities[i].collective != kNone) {
      auto const& collective = recording.collectives[recording.activities[i].collective];
      if (collective.bytes != kUnknown) {
        equal[{recording.activities[i].name, collective.name, collective.group, collective.bytes}]
            .push_back(i);
      }
    }
  }
  for (auto const& [key, activities] : equal) {
    if (activities.size() < kFewest) {
      continue;
    }
    std::vector<Ns> lengths;
    for (auto const i : activities) {
      lengths.push_back(recording.activities[i].time.length());
    }
    std::ranges::sort(lengths);
    auto const needed = lengths[lengths.size() / 10];
    for (auto const i : activities) {
      auto const length = recording.activities[i].time.length();
      // Transfers differ among themselves: less than twice the time says nothing.
      if (length > 2 * needed && length > needed + tolerance::kLongGap / 2) {
        waited_[i] = length - needed;
      }
    }
  }
}

void Collectives::set_waited(Index activity, Ns waited, Index rank) {
  waited_[activity] = waited;
  last_.resize(waited_.size(), kNone);
  last_[activity] = rank;
}

std::vector<std::string> align(std::span<Recording const> ranks,
                               std::span<Collectives> collectives) {
  auto matches = match_collectives(ranks);
  auto const time_of = [&](CollectivePart const& part) {
    return ranks[part.rank].activities[part.activity].time;
  };
  std::size_t by_order = 0;
  std::size_t apart = 0;
  for (auto const& [parts, is_by_order] : matches.collectives) {
    Ns latest = time_of(parts.front()).begin;
    Ns earliest_end = time_of(parts.front()).end;
    auto last = parts.front().rank;
    for (auto const& part : parts) {
      if (time_of(part).begin > latest) {
        latest = time_of(part).begin;
        last = part.rank;
      }
      earliest_end = std::min(earliest_end, time_of(part).end);
    }
    by_order += is_by_order ? 1 : 0;
    if (is_by_order && latest > earliest_end + tolerance::kLongGap) {
      ++apart;  // a collective that ends before another rank begins it is another one
      continue;
    }
    for (auto const& part : parts) {
      collectives[part.rank].set_waited(
          part.activity,
          std::clamp<Ns>(latest - time_of(part).begin, 0, time_of(part).length()),
          static_cast<Index>(last));
    }
  }
  constexpr std::size_t kShownGroups = 2;
  if (matches.doubts.size() > kShownGroups + 1) {
    auto const others = matches.doubts.size() - kShownGroups;
    matches.doubts.resize(kShownGroups);
    matches.doubts.push_back(fmt::format(
        "Likewise, it cannot be told of {} other process groups whether they waited.", others));
  }
  if (apart > 0) {
    matches.doubts.push_back(fmt::format(
        "{} of {} collectives without sequence numbers ended on one rank before another one began "
        "them: whether they waited for another rank cannot be told. Record the same steps on all "
        "ranks.",
        apart,
        by_order));
  }
  return std::move(matches.doubts);
}

}  // namespace msstream::overlap
