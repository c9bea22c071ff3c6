// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/ranks.hpp"

#include "overlap/recording/collective_matches.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr std::size_t kFewestShared = 3;
constexpr Ns kEqualEnds = 20'000;

/// Returns by how much later the collectives that a rank shares with the first one end in it, by
/// the median; empty if there are too few. Matches by order count only if nothing else tells the
/// clock: if a rank was recorded a step later, they are of different steps.
std::optional<Ns> later_ends(std::span<Recording const> ranks,
                             CollectiveMatches const& matches,
                             std::size_t rank,
                             bool has_clock) {
  std::vector<Ns> differences;
  for (auto const& collective : matches.collectives) {
    if (has_clock && collective.by_order) {
      continue;
    }
    std::optional<Ns> first;
    std::optional<Ns> own;
    for (auto const& part : collective.parts) {
      auto const end = ranks[part.rank].activities[part.activity].time.end;
      if (part.rank == 0) {
        first = std::max(first.value_or(end), end);
      } else if (part.rank == rank) {
        own = std::max(own.value_or(end), end);
      }
    }
    if (first && own) {
      differences.push_back(*own - *first);
    }
  }
  if (differences.size() < kFewestShared) {
    return std::nullopt;
  }
  auto const middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
  std::ranges::nth_element(differences, middle);
  return *middle;
}

}  // namespace

void move_times(Recording& recording, Ns by) {
  auto const move_all = [by](auto& elements) {
    for (auto& element : elements) {
      element.time.begin += by;
      element.time.end += by;
    }
  };
  move_all(recording.activities);
  move_all(recording.calls);
  move_all(recording.syncs);
  move_all(recording.overheads);
  move_all(recording.ranges);
  if (recording.start_unix_ns != 0) {
    recording.start_unix_ns -= by;
  }
}

bool align_ranks(std::span<Recording> ranks) {
  if (ranks.size() < 2) {
    return true;
  }
  auto const& first = ranks.front();
  auto const matches = match_collectives(ranks);
  std::vector<Ns> moves(ranks.size());
  std::vector<std::string> notes(ranks.size(),
                                 "on the clock to which the other ranks were aligned");
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    bool const same_file = ranks[i].origin == first.origin && !first.origin.empty();
    bool const has_times = first.start_unix_ns != 0 && ranks[i].start_unix_ns != 0;
    // Unix times lie so close together that their difference fits, unless one is nonsense.
    constexpr Ns most = std::int64_t{1} << 60U;
    auto const apart = has_times ? ranks[i].start_unix_ns - first.start_unix_ns : 0;
    bool const has_clock = has_times ? std::abs(apart) < most : same_file;
    moves[i] = has_clock ? apart : 0;
    notes[i] = same_file ? "its clock is that of the other ranks in its file"
                         : "its clock was aligned by Unix times, which differ between machines";
    auto const later = later_ends(ranks, matches, i, has_clock);
    if (later && (!has_clock || std::abs(*later + moves[i]) > kEqualEnds)) {
      notes[i] = fmt::format("its clock was moved by {} such that collectives end together",
                             duration_text(-*later - moves[i]));
      moves[i] = -*later;
    } else if (!has_clock) {
      return false;
    }
  }
  auto const earliest = *std::ranges::min_element(moves);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    move_times(ranks[i], moves[i] - std::min<Ns>(earliest, 0));
    ranks[i].notes.push_back(fmt::format("rank {}: {}", ranks[i].rank, notes[i]));
  }
  return true;
}

}  // namespace msstream::overlap
