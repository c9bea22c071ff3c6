// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>
#include <msstream/memory/block_source.hpp>
#include <msstream/memory/lent_memory.hpp>
#include <msstream/memory/live_bytes.hpp>
#include <msstream/memory/reuse_rules.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/stream/stream_slot.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace msstream::memory {

/// Which groups are lent a part of a source's memory, and how large a one. Thread-safe.
template <Runtime R>
class Lending {
 public:
  /// All of these live longer.
  Lending(BlockSource<R>& source,
          ReuseRules<R> const& rules,
          LiveBytes const& live,
          std::size_t growth_bytes)
      : source_(source), rules_(rules), live_(live), growth_bytes_(growth_bytes) {}

  /// So that threads do not wait for each other at the lock of the source. Nobody has to wait for
  /// that memory. `hold()`: see LargeBlocks::any().
  template <class Hold>
  void lend_if_contended(StreamSlot<R>& stream, Hold const& hold) {
    if (source_.take_much_contention(stream)) [[unlikely]] {
      lend_ready(stream, hold);
    }
  }
  /// The stream has to wait for free memory.
  void note_need(StreamSlot<R> const& stream) { source_.lent().of(stream).note_need(); }
  /// Lent memory, where there is no other without a wait. As long as there is fresh memory, what
  /// nobody has to wait for, whoever was lent it. Under the limit, what the stream's group was
  /// lent, whoever used that: it waits for it once. A group that has often been in need is lent a
  /// part. Null: there is none for it.
  template <class Hold>
  [[nodiscard]] Block<R>* take(std::size_t bytes, StreamSlot<R>& stream, Hold const& hold) {
    auto& group = source_.lent().of(stream);
    Block<R>* block = nullptr;
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
  static constexpr std::size_t kPartStep = std::size_t{2} << 20U;  ///< whole pages

  /// Whether so much cannot be fresh memory any more, nor what is taken at a time.
  [[nodiscard]] bool is_limit_reached(std::size_t bytes) const {
    auto const& capacity = source_.capacity();
    return !capacity.has_room(std::max(bytes, growth_bytes_), capacity.limit_bytes());
  }
  /// How much more the group may be lent, so that there is as much for all, and for what is too
  /// large.
  [[nodiscard]] std::size_t most_to_lend(LentMemory<R> const& group) {
    std::size_t groups = 0;
    std::size_t lent_to_all = 0;
    std::size_t lent_in_use = 0;
    source_.lent().for_each([&](LentMemory<R> const& lent) {
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
  /// Of so much. What is left of a fair share goes in one piece: several would be too small.
  [[nodiscard]] static std::size_t part_of(std::size_t most) noexcept {
    return most < 2 * kUsualPartBytes ? most / kPartStep * kPartStep : kUsualPartBytes;
  }
  template <class Hold>
  void lend_ready(StreamSlot<R>& stream, Hold const& hold) {
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
  /// A part for so large a block. False: there is none, or the group has enough.
  template <class Hold>
  [[nodiscard]] bool lend_for_good(std::size_t bytes,
                                   StreamSlot<R>& stream,
                                   LentMemory<R>& group,
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
      auto const cheap = [&](Block<R> const& free) { return costs(free) == 0; };
      is_lent = is_lent || source_.lend_gathered(part, group, rules_.over(), cheap);
      lend_to_new_groups(costs);
    }
    return is_lent;
  }
  /// They are soon to wait, too, and then for longer.
  template <class Costs>
  void lend_to_new_groups(Costs const& costs) {
    source_.lent().for_each([&](LentMemory<R>& group) {
      auto const part = part_of(most_to_lend(group));
      if (group.is_new() && part >= growth_bytes_ / 4) {
        static_cast<void>(source_.lend_cheapest(part, group, costs));
      }
    });
  }

  BlockSource<R>& source_;
  ReuseRules<R> const& rules_;
  LiveBytes const& live_;
  std::size_t growth_bytes_;
  std::mutex mutex_;  ///< shares are of what was lent before
};

MSSTREAM_COMPILED_ONCE(class Lending<DefaultRuntime>);

}  // namespace msstream::memory
