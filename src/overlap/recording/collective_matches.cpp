// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/collective_matches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace msstream::overlap {
namespace {

/// The name of a process group, its members, and a number that tells streams apart without a name.
using Communicator = std::tuple<std::string, std::string, std::size_t>;

struct CollectiveEntry {
  Index activity = kNone;
  std::string kind;
  std::int64_t bytes = kUnknown;
  std::int64_t sequence = kUnknown;
};
/// The collectives of one communicator by place of the rank, in their order.
using CollectiveLane = std::map<std::size_t, std::vector<CollectiveEntry>>;

bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whether ranks may give and take different amounts in one collective of a kind.
bool differs_by_rank(std::string_view kind) {
  return mentions(kind, "to_all") || mentions(kind, "toall") || mentions(kind, "ToAll") ||
         mentions(kind, "sendrecv") || mentions(kind, "gather") || mentions(kind, "scatter") ||
         kind == "collective";
}

/// Whether work of a kind has one partner on one other rank, which has another kind.
bool is_of_a_pair(std::string_view kind) {
  return kind == "send" || kind == "recv";
}

void add_rank(std::map<Communicator, CollectiveLane>& lanes,
              Recording const& recording,
              std::size_t rank) {
  std::map<Index, std::size_t> unnamed;  // streams
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    if (activity.collective == kNone) {
      continue;
    }
    auto const& one = recording.collectives[activity.collective];
    auto const group = recording.names[one.group];
    auto const number =
        group.empty() ? unnamed.try_emplace(activity.stream, unnamed.size() + 1).first->second : 0;
    std::string kind(recording.names[one.name]);
    if (!is_of_a_pair(kind)) {
      lanes[{std::string(group), std::string(recording.names[one.members]), number}][rank]
          .push_back({i, std::move(kind), one.bytes, one.sequence});
    }
  }
}

bool have_sequences(CollectiveLane const& lane) {
  return std::ranges::all_of(lane, [](auto const& of_rank) {
    return std::ranges::all_of(
        of_rank.second, [](CollectiveEntry const& entry) { return entry.sequence != kUnknown; });
  });
}

void match_by_sequence(CollectiveLane const& lane, CollectiveMatches& matches) {
  std::map<std::pair<std::string, std::int64_t>, MatchedCollective> found;
  for (auto const& [rank, entries] : lane) {
    for (auto const& entry : entries) {
      found[{entry.kind, entry.sequence}].parts.push_back({rank, entry.activity});
    }
  }
  for (auto& [key, match] : found) {
    if (match.parts.front().rank != match.parts.back().rank) {
      matches.collectives.push_back(std::move(match));
    }
  }
}

bool is_same(CollectiveEntry const& a, CollectiveEntry const& b) {
  return a.kind == b.kind && (a.bytes == b.bytes || a.bytes == kUnknown || b.bytes == kUnknown ||
                              differs_by_rank(a.kind));
}

std::string text_of_communicator(Communicator const& communicator) {
  auto const& [group, members, number] = communicator;
  return group.empty() ? fmt::format("the stream of collectives {}", number)
                       : fmt::format("the process group {}", group);
}

/// Returns why the collectives of two ranks are not the same in the same order; empty if they are.
std::string difference(std::span<Recording const> ranks,
                       Communicator const& communicator,
                       std::pair<std::size_t const, std::vector<CollectiveEntry>> const& first,
                       std::pair<std::size_t const, std::vector<CollectiveEntry>> const& second) {
  auto const number = [&](std::size_t place) {
    return ranks[place].rank == kUnknown ? static_cast<int>(place) : ranks[place].rank;
  };
  if (first.second.size() != second.second.size()) {
    return fmt::format(
        "Of {}, rank {} recorded {} collectives and rank {} recorded {}, without "
        "sequence numbers: which are one cannot be told, nor whether they waited "
        "for another rank. Record the same steps on all ranks.",
        text_of_communicator(communicator),
        number(first.first),
        first.second.size(),
        number(second.first),
        second.second.size());
  }
  for (std::size_t i = 0; i < first.second.size(); ++i) {
    if (!is_same(first.second[i], second.second[i])) {
      return fmt::format(
          "Of {}, collective {} of rank {} is another one than that of rank {}, "
          "without sequence numbers: which are one cannot be told, nor whether they "
          "waited for another rank. Record the same steps on all ranks.",
          text_of_communicator(communicator),
          i + 1,
          number(first.first),
          number(second.first));
    }
  }
  return {};
}

}  // namespace

CollectiveMatches match_collectives(std::span<Recording const> ranks) {
  std::map<Communicator, CollectiveLane> lanes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    add_rank(lanes, ranks[rank], rank);
  }
  CollectiveMatches matches;
  for (auto const& [communicator, lane] : lanes) {
    if (lane.size() < 2) {
      continue;
    }
    if (have_sequences(lane)) {
      match_by_sequence(lane, matches);
      continue;
    }
    std::string doubt;
    for (auto other = std::next(lane.begin()); other != lane.end() && doubt.empty(); ++other) {
      doubt = difference(ranks, communicator, *lane.begin(), *other);
    }
    if (!doubt.empty()) {
      matches.doubts.push_back(std::move(doubt));
      continue;
    }
    for (std::size_t i = 0; i < lane.begin()->second.size(); ++i) {
      auto& match = matches.collectives.emplace_back();
      match.by_order = true;
      for (auto const& [rank, entries] : lane) {
        match.parts.push_back({rank, entries[i].activity});
      }
    }
  }
  return matches;
}

}  // namespace msstream::overlap
