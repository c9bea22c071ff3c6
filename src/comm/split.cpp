// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"
#include "comm/peers.hpp"
#include "comm/process_store.hpp"
#include "comm/thread_world.hpp"
#include "comm/world_access.hpp"
#include "stream/inside_work.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/comm/world.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm {
namespace detail {

int rank_in_whole(SharedGroup const& group, int rank) {
  return group == nullptr ? rank : group->members[static_cast<std::size_t>(rank)];
}

int rank_in_group(SharedGroup const& group, int rank_in_whole) {
  if (group == nullptr) {
    return rank_in_whole;
  }
  auto const found = std::ranges::find(group->members, rank_in_whole);
  return found == group->members.end() ? -1 : static_cast<int>(found - group->members.begin());
}

World WorldAccess::in_group(World world, int rank, SharedGroup group) {
  world.rank_ = rank;
  world.size_ = static_cast<int>(group->members.size());
  world.group_ = std::move(group);
  return world;
}

std::string key_of(SharedGroup const& group, std::string const& name) {
  return group == nullptr ? name : group->id + name;
}

namespace {

/// Returns a text such as "ranks 4 to 7", or "ranks 0, 2, 4" with the first few of many.
[[nodiscard]] std::string text_of_members(std::vector<int> const& members) {
  constexpr std::size_t kMostNamed = 8;
  if (members.size() == 1) {
    return fmt::format("rank {}", members.front());
  }
  bool const are_consecutive =
      std::ranges::adjacent_find(members, [](int a, int b) { return b != a + 1; }) == members.end();
  if (are_consecutive && members.size() > 2) {
    return fmt::format("ranks {} to {}", members.front(), members.back());
  }
  std::string text = "ranks ";
  for (std::size_t i = 0; i < std::min(members.size(), kMostNamed); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", members[i]);
  }
  return members.size() <= kMostNamed ? text : text + fmt::format(", … ({})", members.size());
}

}  // namespace

std::string title_of(SharedGroup const& group, std::string const& name) {
  auto const what =
      name == kSplitName ? std::string("World::split()") : fmt::format("communicator '{}'", name);
  return group == nullptr ? what
                          : what + " of " + text_of_members(group->members) + " of the whole world";
}

std::string_view entry_of(std::string const& name) {
  return name == kSplitName ? "World::split()" : "the constructor of the communicator";
}

std::string text_of_rank(SharedGroup const& group, int rank, int rank_in_whole) {
  if (group == nullptr) {
    return fmt::format("rank {}", rank);
  }
  return rank < 0 ? fmt::format("rank {} of the whole world", rank_in_whole)
                  : fmt::format("rank {} ({} of the whole world)", rank, rank_in_whole);
}

namespace {

/// A rank's part in a split, as it tells the others.
struct Choice {
  bool is_member = false;
  int color = 0;
  int key = 0;
  std::uint64_t serial = 0;  ///< of the split; that of rank 0 counts
  std::string place;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {} {} {}", is_member ? 1 : 0, color, key, serial, place);
  }
  [[nodiscard]] static Choice parsed(std::string const& text) {
    Choice choice;
    std::istringstream from(text);
    from >> choice.is_member >> choice.color >> choice.key >> choice.serial >> std::ws;
    std::getline(from, choice.place);
    return choice;
  }
};

void require_color(Choice const& choice, int rank) {
  require(!choice.is_member || choice.color >= 0,
          "World::split: rank {} has a color of {} at {}; expected 0 to {}, or std::nullopt for a "
          "rank that gets no world",
          rank,
          choice.color,
          choice.place,
          std::numeric_limits<int>::max());
}

/// Returns the choices of all ranks, by rank.
[[nodiscard]] std::vector<Choice> exchanged(Peers& peers, Choice const& own) {
  std::vector<Choice> choices;
  try {
    for (auto const& text : peers.exchange(own.text())) {
      choices.push_back(Choice::parsed(text));
    }
  } catch (std::exception const& error) {
    if (!peers.has_failed()) {
      peers.lose(peers.rank(), error.what());
    }
    throw;
  }
  try {
    peers.leave();
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): all choices have come
  }
  return choices;
}

/// Returns the group of the ranks that have the color of `self`, by their keys.
[[nodiscard]] Group group_of(std::vector<Choice> const& choices,
                             int self,
                             SharedGroup const& parent) {
  auto const color = choices[static_cast<std::size_t>(self)].color;
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    if (choices[rank].is_member && choices[rank].color == color) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  std::ranges::stable_sort(
      ranks, {}, [&](int rank) { return choices[static_cast<std::size_t>(rank)].key; });
  // The first character keeps the names of the group's communicators apart from those of the whole
  // world.
  Group group{key_of(parent, fmt::format("\x1f{}.{}/", choices.front().serial, color)), {}};
  for (int const rank : ranks) {
    group.members.push_back(rank_in_whole(parent, rank));
  }
  return group;
}

}  // namespace
}  // namespace detail

std::optional<World> World::split(std::optional<int> color,
                                  SplitOptions const& options,
                                  std::source_location called_at) const {
  using namespace detail;
  require(options.timeout > std::chrono::nanoseconds(0),
          "World::split: a timeout of {} ns; expected more than 0",
          options.timeout.count());
  msstream::detail::InsideWork::refuse_wait("World::split");
  static std::atomic<std::uint64_t> splits = 0;
  Choice const own{color.has_value(),
                   color.value_or(0),
                   options.key,
                   splits.fetch_add(1),
                   fmt::format("{}:{}", called_at.file_name(), called_at.line())};
  if (size_ == 1) {
    require_color(own, rank_);
    return color ? std::optional(*this) : std::nullopt;
  }
  auto result = *this;
  std::shared_ptr<Peers> peers;
  if (threads_ != nullptr) {
    auto place = threads_->join(rank_, kSplitName, options.timeout, called_at, group_);
    peers = make_thread_peers(std::move(place), rank_, options.timeout);
  } else {
    result.processes_ = store_of_this_process(*this, kSplitName, options.timeout);
    peers = make_process_peers(result.processes_, *this, kSplitName, options.timeout, called_at);
  }
  auto const choices = exchanged(*peers, own);
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    require_color(choices[rank], static_cast<int>(rank));
  }
  if (!color) {
    return std::nullopt;
  }
  auto group = std::make_shared<Group const>(group_of(choices, rank_, group_));
  int const rank = rank_in_group(group, rank_in_whole(group_, rank_));
  return WorldAccess::in_group(std::move(result), rank, std::move(group));
}

World World::split(int color, SplitOptions const& options, std::source_location called_at) const {
  return *split(std::optional(color), options, called_at);
}

}  // namespace msstream::comm
