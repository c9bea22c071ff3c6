// SPDX-License-Identifier: Apache-2.0
#include "memory/large/group_shares.hpp"

#include <algorithm>

namespace msstream::memory {
namespace {

constexpr std::size_t kUsualPartBytes = std::size_t{64} << 20U;
constexpr std::size_t kLeastPartBytes = std::size_t{16} << 20U;
constexpr std::size_t kPartStep = std::size_t{2} << 20U;  ///< the unit of part sizes, whole pages
constexpr auto kAny = [](Block const&) { return true; };

/// Returns the size of the next part to lend to a group that may get `most` more bytes. If less
/// than two usual parts are left, they become one part, because two would be too small.
[[nodiscard]] std::size_t part_of(std::size_t most) noexcept {
  return most < 2 * kUsualPartBytes ? most / kPartStep * kPartStep : kUsualPartBytes;
}

}  // namespace

Block* GroupShares::take_of_any(std::size_t bytes, BlockPredicate ready) {
  Block* found = nullptr;
  for_each([&](GroupShare& share) { found = found != nullptr ? found : share.take(bytes, ready); });
  return found;
}

Block* GroupShares::take_in_need(std::size_t bytes, detail::StreamSlot& stream, Hands* hands) {
  auto& share = of(stream);
  Block* block = nullptr;
  if (is_limit_reached(bytes)) {
    share.note_need();
    block = share.take(bytes, kAny);
  } else {
    block = take_of_any(bytes, rules_.ready_for(stream));
  }
  if (block == nullptr && share.take_much_need() && lend_for_good(bytes, stream, share, hands)) {
    block = share.take(bytes, kAny);
  }
  return block;
}

bool GroupShares::lend(std::size_t bytes, detail::StreamSlot const& stream, BlockPredicate ready) {
  Block* const block = backing_.arena().access_to_cut()->take(bytes, ready);
  return add(of(stream), block);
}

void GroupShares::take_back() noexcept {
  auto const arena = backing_.arena().access();
  for_each([&](GroupShare& share) { share.give_back(*arena); });
}

/// Adds a used block of the arena to the share, or frees the block if it cannot be added. Returns
/// false if the block was not added, or is null.
bool GroupShares::add(GroupShare& share, Block* block) noexcept {
  bool const is_added = block != nullptr && share.add(block);
  if (!is_added) {
    backing_.arena().put(block);
  }
  return is_added;
}

/// Returns whether the memory limit has no room for `bytes`, or for the number of bytes that the
/// pool takes from the runtime at a time.
bool GroupShares::is_limit_reached(std::size_t bytes) const {
  auto const& capacity = backing_.capacity();
  return !capacity.has_room(std::max(bytes, growth_bytes_), capacity.limit_bytes());
}

/// Returns how many more bytes may be lent to the share, so that each other group can get as much,
/// and 1/8 is left for requests that are too large for a part.
std::size_t GroupShares::most_to_lend(GroupShare const& share) const {
  std::size_t groups = 0;
  std::size_t lent_to_all = 0;
  std::size_t lent_in_use = 0;
  for_each([&](GroupShare const& each) {
    ++groups;
    lent_to_all += each.lent_bytes();
    lent_in_use += each.bytes_in_use();
  });
  auto const limit = backing_.capacity().limit_bytes();
  auto const live = live_.now();
  auto const live_elsewhere = live - std::min(live, lent_in_use);
  auto const to_lend = limit - std::min(limit, live_elsewhere);
  auto const fair = to_lend / 8 * 7 / std::max(groups, std::size_t{1});
  auto const lent = std::min(fair, share.lent_bytes());
  return std::min(fair - lent, to_lend - std::min(to_lend, lent_to_all));
}

void GroupShares::lend_ready(detail::StreamSlot& stream, Hands* hands) {
  auto const in_hand = take_in_hand(hands);
  std::lock_guard const lending(mutex_);
  auto const most = most_to_lend(of(stream));
  for (auto bytes = part_of(most); bytes >= kLeastPartBytes; bytes /= 2) {
    bool const is_lent = lend(bytes, stream, rules_.ready_for(stream));
    if (is_lent || most < 2 * kUsualPartBytes) {
      return;
    }
  }
}

/// Lends the share a part that can hold a block of `bytes`. At the memory limit, may put pages
/// together for the part, and also lends parts to groups that have never had one, because they
/// would soon have to wait for longer. Returns false if there is no memory for a part, or the group
/// has enough.
bool GroupShares::lend_for_good(std::size_t bytes,
                                detail::StreamSlot& stream,
                                GroupShare& share,
                                Hands* hands) {
  auto const in_hand = take_in_hand(hands);
  std::lock_guard const lending(mutex_);
  auto const part = part_of(most_to_lend(share));
  if (part < std::max(growth_bytes_ / 4, bytes) || !share.has_room_for_a_part()) {
    return false;
  }
  auto& arena = backing_.arena();
  auto const costs = rules_.costs(stream);
  bool is_lent = add(share, arena.take_cheapest(part, costs));
  if (!is_lent) {
    arena.join_all();
    is_lent = add(share, arena.take_cheapest(part, costs));
  }
  if (is_limit_reached(bytes)) {
    auto const cheap = [&](Block const& free) { return costs(free) == 0; };
    is_lent = is_lent || add(share, backing_.try_gather(part, rules_.over(), cheap, kAny));
    for_each([&](GroupShare& other) {
      auto const others = part_of(most_to_lend(other));
      if (other.is_new() && others >= growth_bytes_ / 4) {
        static_cast<void>(add(other, arena.take_cheapest(others, costs)));
      }
    });
  }
  return is_lent;
}

}  // namespace msstream::memory
