// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/hands.hpp"
#include "memory/blocks/reuse_rules.hpp"
#include "memory/large/group_share.hpp"
#include "memory/large/lately.hpp"
#include "memory/small/live_bytes.hpp"
#include "memory/supply/backing_memory.hpp"
#include "stream/stream_slot.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace msstream::memory {

/// Lends parts of the memory to groups: each part is cut by one group alone, under a lock of the
/// group, until an allocation finds no memory and all parts are taken back. Decides which groups
/// get parts, and how much. A stream without a group counts as a group. If there are many groups,
/// some have one share together. Thread-safe.
class GroupShares {
 public:
  /// Keeps references to the arguments, which must outlive all calls.
  GroupShares(BackingMemory& backing,
              ReuseRules const& rules,
              LiveBytes const& live,
              std::size_t growth_bytes)
      : backing_(backing), rules_(rules), live_(live), growth_bytes_(growth_bytes) {}
  GroupShares(GroupShares const&) = delete;
  GroupShares& operator=(GroupShares const&) = delete;
  /// Runs after take_back(), and after the destruction of the memory, whose arena may still have
  /// blocks that a share has made.
  ~GroupShares() {
    for_each([](GroupShare const& share) { delete &share; });
  }

  /// Takes the block that fits best among those of the group's share that are `ready(block)`, cut
  /// to `bytes`. Null if there is none.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes, detail::StreamSlot const& stream, Ready&& ready) {
    return of(stream).take(bytes, ready);
  }
  /// Like take(), but from the share of any group.
  [[nodiscard]] Block* take_of_any(std::size_t bytes, BlockPredicate ready);
  /// Takes a block for a stream that finds no other memory without a wait. As long as there is
  /// fresh memory, takes a block that needs no wait from the share of any group. At the limit,
  /// takes any block from the share of the stream's group, which the stream waits for once. Adds a
  /// part to the share of a group that has often been in need; the lock of `hands` is held
  /// meanwhile. Null if there is no such block.
  [[nodiscard]] Block* take_in_need(std::size_t bytes, detail::StreamSlot& stream, Hands* hands);
  /// Frees a block that belongs to a share. False if it belongs to none.
  [[nodiscard]] static bool put(Block* block) noexcept {
    auto* const share = block->share.load(std::memory_order_acquire);
    return share != nullptr && share->put(block);
  }

  /// Adds a free block of `bytes` that is `ready(block)` to the share of the stream's group. False
  /// if there is no such block, or the group has enough parts. During the call, other threads may
  /// miss the block.
  bool lend(std::size_t bytes, detail::StreamSlot const& stream, BlockPredicate ready);
  /// Adds a part to the share of the stream's group if its threads often find the lock of the arena
  /// taken. Takes only memory that needs no wait. The lock of `hands` is held meanwhile.
  void lend_if_contended(detail::StreamSlot& stream, Hands* hands) {
    if (of(stream).take_much_contention()) [[unlikely]] {
      contention_.note();
      lend_ready(stream, hands);
    }
  }
  /// Notes that the stream's group has found the lock of the arena taken.
  void note_contention(detail::StreamSlot const& stream) { of(stream).note_contention(); }
  /// Whether any group has often found the lock of the arena taken within the last second.
  [[nodiscard]] bool is_contended() const noexcept { return contention_.has_happened(); }
  /// Notes that the stream has to wait for free memory.
  void note_need(detail::StreamSlot const& stream) { of(stream).note_need(); }
  /// Returns all parts to the arena, as they are cut.
  void take_back() noexcept;

  /// Returns how many bytes the share of the stream's group has.
  [[nodiscard]] std::size_t bytes_of(detail::StreamSlot const& stream) {
    return of(stream).lent_bytes();
  }
  /// Calls `visit(block)` for each free block of all shares, under the lock of each share.
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    for_each([&](GroupShare const& share) { share.for_each_free(visit); });
  }

 private:
  [[nodiscard]] GroupShare& of(detail::StreamSlot const& stream) {
    auto const group = stream.identity.group;
    auto const number = group >= 0 ? static_cast<std::size_t>(group) : std::size_t{stream.index};
    auto& place = by_group_[number % by_group_.size()];
    auto* const share = place.load(std::memory_order_acquire);
    return share != nullptr ? *share : make_in(place);
  }
  [[gnu::noinline, gnu::cold]] static GroupShare& make_in(std::atomic<GroupShare*>& place) {
    auto created = std::make_unique<GroupShare>();
    GroupShare* share = nullptr;
    if (place.compare_exchange_strong(share, created.get(), std::memory_order_acq_rel)) {
      share = created.release();
    }
    return *share;
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (auto const& place : by_group_) {
      if (auto* const share = place.load(std::memory_order_acquire)) {
        visit(*share);
      }
    }
  }
  bool add(GroupShare& share, Block* block) noexcept;
  [[nodiscard]] bool is_limit_reached(std::size_t bytes) const;
  [[nodiscard]] std::size_t most_to_lend(GroupShare const& share) const;
  void lend_ready(detail::StreamSlot& stream, Hands* hands);
  [[nodiscard]] bool lend_for_good(std::size_t bytes,
                                   detail::StreamSlot& stream,
                                   GroupShare& share,
                                   Hands* hands);

  BackingMemory& backing_;
  ReuseRules const& rules_;
  LiveBytes const& live_;
  std::size_t growth_bytes_;
  Lately contention_;
  std::mutex mutex_;  ///< serialises parts, since each depends on the earlier ones
  alignas(64) std::array<std::atomic<GroupShare*>, 16> by_group_{};
};

}  // namespace msstream::memory
