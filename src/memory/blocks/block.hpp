// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/size_class.hpp"
#include "stream/access.hpp"

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/order/position.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace msstream::detail {

struct DeviceState;

/// Tells a profiler how much memory of the device is in use, after some of it was freed. Called
/// only while a tool listens, and without a lock of the allocator.
void note_free(DeviceState& device) noexcept;

}  // namespace msstream::detail

namespace msstream::memory {

class BlockPool;
class GroupShare;
struct Block;

/// The kind of memory that a block is made of.
enum class Space : std::uint8_t { device, pinned };

/// The state of a block in an arena: in use, free, or without memory behind its addresses.
enum class Holding : std::uint8_t { used, free, absent };

/// The data that an arena keeps about one of its blocks.
struct ArenaLinks {
  Block* lower = nullptr;  ///< the block that ends where this one begins
  Block* higher = nullptr;
  Block* made_before = nullptr;
  Holding holding = Holding::used;
};

/// The neighbours of a block in its BlockList.
struct ListLinks {
  ListLinks* newer = nullptr;
  ListLinks* older = nullptr;
};

/// A piece of device or pinned memory with the record of its accesses.
///
/// When the memory is freed and allocated again, the record stays: the first write of the next
/// owner is ordered after the last uses like after any other access. Freeing memory therefore needs
/// no event and no wait. Blocks of different streams share no cache line.
struct alignas(64) Block : ListLinks {
  detail::AccessRecord record;
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< the capacity of the block
  std::size_t size_class = SizeClass::kNone;
  ArenaLinks arena;
  /// The group's share of large memory that the block belongs to, or null. Changes under the
  /// share's lock.
  std::atomic<GroupShare*> share{nullptr};
  order::StreamIndex home = 0;         ///< the stream whose free list the block returns to
  std::atomic<bool> immutable{false};  ///< the block is only read, and therefore not tracked
  /// Whether the block was made in a capture that failed, so that it has no contents until it is
  /// written. It is then immutable too.
  std::atomic<bool> lost{false};
  /// Whether code outside of msstream has had write access to the block, whose writes are noted
  /// late or never. False again when the block returns to its pool.
  std::atomic<bool> shared_outside{false};
  std::atomic<std::uint32_t> references{0};
  std::atomic<std::uint32_t> captured_reads{0};  ///< references by graphs that copy from the block
  std::atomic<std::uint32_t> unfreezes{0};       ///< how often the block ceased to be immutable
  BlockPool* pool = nullptr;                   ///< null if the memory has another owner than a pool
  void (*release)(Block*) noexcept = nullptr;  ///< gives the memory back if there is no pool
  /// The name scope of the allocation. Null outside all scopes, and while the block is free.
  std::shared_ptr<std::string const> scope;
  /// The name by which the tensor was last frozen or unfrozen, for messages, or null. Changes under
  /// the lock of the record.
  std::shared_ptr<std::string const> name;
  /// The reference that keeps the device alive while the block is in use.
  std::shared_ptr<detail::DeviceState> const* device = nullptr;
};

}  // namespace msstream::memory
