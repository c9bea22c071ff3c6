// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/large/block_source.hpp"
#include "memory/large/lent_memory.hpp"
#include "memory/large/reuse_rules.hpp"
#include "memory/small/live_bytes.hpp"
#include "stream/stream_slot.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace msstream::memory {

/// Decides which groups get LentMemory from a source, and how much. Thread-safe.
class Lending {
 public:
  /// Keeps references to the arguments, which must outlive it.
  Lending(BlockSource& source,
          ReuseRules const& rules,
          LiveBytes const& live,
          std::size_t growth_bytes)
      : source_(source), rules_(rules), live_(live), growth_bytes_(growth_bytes) {}

  /// Adds to the LentMemory of the stream's group if its threads often wait for each other at the
  /// lock of the source. Takes only memory that needs no wait. `hold()`: see LargeBlocks::any().
  template <class Hold>
  void lend_if_contended(detail::StreamSlot& stream, Hold const& hold) {
    if (source_.take_much_contention(stream)) [[unlikely]] {
      lend_ready(stream, hold);
    }
  }
  /// Notes that the stream has to wait for free memory.
  void note_need(detail::StreamSlot const& stream) { source_.lent().of(stream).note_need(); }
  /// Takes a block from LentMemory, for a stream that finds no other memory without a wait. As long
  /// as there is fresh memory, takes a block that needs no wait from the LentMemory of any group.
  /// At the limit, takes any block from the LentMemory of the stream's group, which the stream
  /// waits for once. Adds a part to the LentMemory of a group that has often been in need. Null if
  /// there is no such block.
  template <class Hold>
  [[nodiscard]] Block* take(std::size_t bytes, detail::StreamSlot& stream, Hold const& hold) {
    auto& group = source_.lent().of(stream);
    Block* block = nullptr;
    if (is_limit_reached(bytes)) {
      group.note_need();
      block = source_.take_own(bytes, stream);
    } else {
      block = source_.take_lent(bytes, rules_.ready_for(stream));
    }
    if (block == nullptr && group.take_much_need() && lend_for_good(bytes, stream, group, hold)) {
      block = source_.take_own(bytes, stream);
    }
    return block;
  }

 private:
  static constexpr std::size_t kUsualPartBytes = std::size_t{64} << 20U;
  static constexpr std::size_t kLeastPartBytes = std::size_t{16} << 20U;
  static constexpr std::size_t kPartStep = std::size_t{2}
                                           << 20U;  ///< the unit of part sizes, whole pages

  /// Whether the limit has no room for `bytes`, or for the number of bytes taken at a time.
  [[nodiscard]] bool is_limit_reached(std::size_t bytes) const {
    auto const& capacity = source_.capacity();
    return !capacity.has_room(std::max(bytes, growth_bytes_), capacity.limit_bytes());
  }
  /// Returns how many more bytes the group may get as LentMemory, so that as much is left for each
  /// other group, and some for requests that are too large for a part.
  [[nodiscard]] std::size_t most_to_lend(LentMemory const& group) {
    std::size_t groups = 0;
    std::size_t lent_to_all = 0;
    std::size_t lent_in_use = 0;
    source_.lent().for_each([&](LentMemory const& lent) {
      ++groups;
      lent_to_all += lent.lent_bytes();
      lent_in_use += lent.bytes_in_use();
    });
    auto const limit = source_.capacity().limit_bytes();
    auto const live = live_.now();
    auto const live_elsewhere = live - std::min(live, lent_in_use);
    auto const to_lend = limit - std::min(limit, live_elsewhere);
    auto const fair = to_lend / 8 * 7 / std::max(groups, std::size_t{1});
    auto const lent = std::min(fair, group.lent_bytes());
    return std::min(fair - lent, to_lend - std::min(to_lend, lent_to_all));
  }
  /// Returns the size of a part, if a group may get `most` bytes. The rest of a fair share is one
  /// part, because several would be too small.
  [[nodiscard]] static std::size_t part_of(std::size_t most) noexcept {
    return most < 2 * kUsualPartBytes ? most / kPartStep * kPartStep : kUsualPartBytes;
  }
  template <class Hold>
  void lend_ready(detail::StreamSlot& stream, Hold const& hold) {
    [[maybe_unused]] auto const in_hand = hold();
    std::lock_guard const lending(mutex_);
    auto& group = source_.lent().of(stream);
    auto const most = most_to_lend(group);
    for (auto bytes = part_of(most); bytes >= kLeastPartBytes; bytes /= 2) {
      bool const is_lent = source_.lend(bytes, group, rules_.ready_for(stream));
      if (is_lent || most < 2 * kUsualPartBytes) {
        return;
      }
    }
  }
  /// Adds a part to the group's LentMemory that can hold a block of `bytes`. False if there is
  /// none, or the group has enough.
  template <class Hold>
  [[nodiscard]] bool lend_for_good(std::size_t bytes,
                                   detail::StreamSlot& stream,
                                   LentMemory& group,
                                   Hold const& hold) {
    [[maybe_unused]] auto const in_hand = hold();
    std::lock_guard const lending(mutex_);
    auto const part = part_of(most_to_lend(group));
    if (part < std::max(growth_bytes_ / 4, bytes) || !group.has_room_for_a_part()) {
      return false;
    }
    auto const costs = rules_.costs(stream);
    bool is_lent = source_.lend_cheapest(part, group, costs);
    if (!is_lent) {
      source_.join_all();
      is_lent = source_.lend_cheapest(part, group, costs);
    }
    if (is_limit_reached(bytes)) {
      auto const cheap = [&](Block const& free) { return costs(free) == 0; };
      is_lent = is_lent || source_.lend_gathered(part, group, rules_.over(), cheap);
      lend_to_new_groups(costs);
    }
    return is_lent;
  }
  /// Gives parts to groups that have never had one: they would soon wait, too, and then for longer.
  template <class Costs>
  void lend_to_new_groups(Costs const& costs) {
    source_.lent().for_each([&](LentMemory& group) {
      auto const part = part_of(most_to_lend(group));
      if (group.is_new() && part >= growth_bytes_ / 4) {
        static_cast<void>(source_.lend_cheapest(part, group, costs));
      }
    });
  }

  BlockSource& source_;
  ReuseRules const& rules_;
  LiveBytes const& live_;
  std::size_t growth_bytes_;
  std::mutex mutex_;  ///< serialises shares, since each depends on the earlier ones
};

}  // namespace msstream::memory
