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

/// The shares of all stream groups in a pool's large memory. Lends parts of the memory to groups:
/// each part is cut by one group alone, under a lock of the group's share, until an allocation
/// finds no memory and all parts are taken back. Decides which groups get parts, and how much. A
/// stream without a group counts as a group. If there are many groups, some have one share
/// together. Thread-safe.
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
  /// Runs after take_back(), and after the destruction of the BackingMemory, whose arena may still
  /// have blocks that a share has made.
  ~GroupShares() {
    for_each([](GroupShare const& share) { delete &share; });
  }

  /// Takes the free block that fits best from the share of the stream's group, among those for
  /// which `ready(block)` is true, cut to `bytes`. Returns null if there is none.
  template <class Ready>
  [[nodiscard]] Block* take(std::size_t bytes, detail::StreamSlot const& stream, Ready&& ready) {
    return of(stream).take(bytes, ready);
  }
  /// Takes a free block for which `ready(block)` is true, cut to `bytes`, from the share of any
  /// group. Returns null if there is none.
  [[nodiscard]] Block* take_of_any(std::size_t bytes, BlockPredicate ready);
  /// Takes a block for a stream that finds no other memory without a wait. While the memory limit
  /// has room, takes a block that needs no wait from the share of any group. At the limit, takes
  /// any block from the share of the stream's group, for which the stream may wait once. Lends a
  /// part to a group that has often been without memory, with the lock `hands` held. Returns null
  /// if there is no block.
  [[nodiscard]] Block* take_in_need(std::size_t bytes, detail::StreamSlot& stream, Hands* hands);
  /// Frees a block that belongs to a share. Returns false, and does nothing, if the block belongs
  /// to none.
  [[nodiscard]] static bool put(Block* block) noexcept {
    auto* const share = block->share.load(std::memory_order_acquire);
    return share != nullptr && share->put(block);
  }

  /// Lends a free block of `bytes` for which `ready(block)` is true to the share of the stream's
  /// group. Returns false if there is no such block, or the group has enough parts. During the
  /// call, other threads may not find the block.
  bool lend(std::size_t bytes, detail::StreamSlot const& stream, BlockPredicate ready);
  /// Lends a part to the share of the stream's group if its threads often find the arena's lock
  /// taken. Takes only memory that needs no wait. Holds the lock `hands` meanwhile.
  void lend_if_contended(detail::StreamSlot& stream, Hands* hands) {
    if (of(stream).take_much_contention()) [[unlikely]] {
      contention_.note();
      lend_ready(stream, hands);
    }
  }
  /// Notes that a thread of the stream's group has found the arena's lock taken.
  void note_contention(detail::StreamSlot const& stream) { of(stream).note_contention(); }
  /// Returns whether any group has often found the arena's lock taken within the last second.
  [[nodiscard]] bool is_contended() const noexcept { return contention_.has_happened(); }
  /// Notes that the stream has to wait for free memory.
  void note_need(detail::StreamSlot const& stream) { of(stream).note_need(); }
  /// Returns all parts of all shares to the arena, as they are cut.
  void take_back() noexcept;

  /// Returns the size of the share of the stream's group in bytes.
  [[nodiscard]] std::size_t bytes_of(detail::StreamSlot const& stream) {
    return of(stream).lent_bytes();
  }
  /// Calls `visit(block)` for each free block of all shares, with the lock of the block's share
  /// held.
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
  std::mutex mutex_;  ///< held while a part is lent; its size depends on the earlier parts
  alignas(64) std::array<std::atomic<GroupShare*>, 16> by_group_{};
};

}  // namespace msstream::memory
