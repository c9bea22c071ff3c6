// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/block_uses.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/stream/foreign_streams.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream {

/// The device's memory by plain pointer, for streams that msstream did not make: what other
/// libraries' allocator interfaces are made of.
///
/// Stream-ordered, as cudaMallocAsync: memory is for work put on the allocating stream from here
/// on, and given back it is free behind all that is on the returning stream by then. What the next
/// owner must wait for, its stream waits for at once, on the device: work on such streams is not
/// tracked. A stream may be destroyed as soon as the memory has been given back on it, with work in
/// flight. A capture is refused: its graph would use the memory again when others have it.
/// Memory counts in the device's statistics, in the calling thread's name scope. Thread-safe.
template <InteropRuntime R = DefaultRuntime>
class RawAllocator {
 public:
  using Native = typename R::native_stream;
  static constexpr std::size_t kAlignment = memory::SizeClass::kLeastBytes;  ///< of all memory

  explicit RawAllocator(Device<R> device)
      : device_(std::move(device)),
        streams_(device_.context()),
        no_stream_(&device_.context()->tracker->attach({}, device_.context()->events, {"host"})) {}
  RawAllocator(RawAllocator const&) = delete;
  RawAllocator& operator=(RawAllocator const&) = delete;
  /// What is still out is given back as by deallocate(memory).
  ~RawAllocator() {
    [[maybe_unused]] auto const visit = runtime().visit();
    for (auto& shard : shards_) {
      shard.held.clear();
    }
    captured_.clear();
    tracker().detach(*no_stream_);
  }

  /// Memory for work on `stream` from here on; null for zero bytes. Does not block the host, unless
  /// memory is short. Throws OutOfMemory, std::invalid_argument for an alignment that is no power
  /// of two, and std::logic_error while the stream is captured.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, Native stream) {
    require_power_of_two(alignment);
    if (bytes == 0) {
      return nullptr;
    }
    [[maybe_unused]] auto const visit = runtime().visit();
    auto const user = streams_.find(stream);
    if (!user.has_value()) {
      throw std::logic_error(text("RawAllocator::allocate: ",
                                  bytes,
                                  " bytes asked on a stream that is captured: allocate before the "
                                  "capture what its graph uses"));
    }
    take_back_captured(*user, stream);
    auto block = take(bytes, alignment, user->slot());
    make_follow(user->slot(), *block);
    return hold(std::move(block), alignment, {user->id(), stream});
  }
  /// Memory that any stream and the host may use at once. Blocks the host until its last uses are
  /// over, if need be.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = kAlignment) {
    require_power_of_two(alignment);
    if (bytes == 0) {
      return nullptr;
    }
    [[maybe_unused]] auto const visit = runtime().visit();
    auto block = take(bytes, alignment, *no_stream_);
    for_each_use(*block, [&](order::Position use) { tracker().synchronize(use); });
    return hold(std::move(block), alignment, {});
  }

  /// The memory is free behind all that is on `stream` and on those of record_use() by now. Does
  /// not block. Null is nothing. Throws std::invalid_argument for what is not memory of this
  /// allocator, or was given back before.
  void deallocate(void* memory, Native stream) {
    if (memory == nullptr) {
      return;
    }
    [[maybe_unused]] auto const visit = runtime().visit();
    auto held = let_go(memory);
    try {
      give_back(held, stream);
    } catch (...) {
      keep_for_ever(held);  // nobody knows what still uses it
      throw;
    }
  }
  /// The same when all work that uses the memory is over, but for that of record_use().
  void deallocate(void* memory) {
    if (memory == nullptr) {
      return;
    }
    [[maybe_unused]] auto const visit = runtime().visit();
    auto held = let_go(memory);
    try {
      if (!note_other_uses(held)) {
        keep_for_ever(held);
      }
    } catch (...) {
      keep_for_ever(held);
      throw;
    }
  }

  /// `stream` uses the memory, too, until it is given back; the stream must be there until then.
  void record_use(void* memory, Native stream) {
    auto& shard = shard_of(memory);
    std::lock_guard const guard(shard.mutex);
    auto const found = shard.held.find(memory);
    if (found == shard.held.end()) {
      refuse("record_use", memory);
    }
    auto& others = found->second.others;
    if (std::find(others.begin(), others.end(), stream) == others.end()) {
      others.push_back(stream);
    }
  }

  /// Whether it is memory that is out.
  [[nodiscard]] bool has(void* memory) {
    auto& shard = shard_of(memory);
    std::lock_guard const guard(shard.mutex);
    return shard.held.contains(memory);
  }
  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }

 private:
  static constexpr std::size_t kShards = 64;

  /// Whom memory was allocated for.
  struct Owner {
    std::uint64_t id = std::numeric_limits<std::uint64_t>::max();  ///< of no stream: for anybody
    Native stream{};
  };
  struct Held {
    memory::BlockRef<R> block;
    Owner owner;
    std::vector<Native> others;  ///< of record_use()
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<void*, Held> held;
  };
  /// Given back while the owner's stream was captured: no position can be had of it until the
  /// capture is over. The memory waits for the owner's next call.
  class Captured {
   public:
    void add(Held& held) noexcept {
      std::lock_guard const guard(mutex_);
      try {
        held_.push_back(std::move(held));
        count_.store(held_.size());
      } catch (std::bad_alloc const&) {
        // The host has no memory to note it: nobody gets the block again.
        held.block->references.fetch_add(1);
      }
    }
    [[nodiscard]] std::vector<Held> take(Owner const& owner) {
      std::vector<Held> taken;
      if (count_.load() != 0) [[unlikely]] {
        std::lock_guard const guard(mutex_);
        auto const first = std::partition(held_.begin(), held_.end(), [&](Held const& held) {
          return held.owner.id != owner.id || held.owner.stream != owner.stream;
        });
        taken.assign(std::move_iterator(first), std::move_iterator(held_.end()));
        held_.erase(first, held_.end());
        count_.store(held_.size());
      }
      return taken;
    }
    void clear() { held_.clear(); }

   private:
    std::mutex mutex_;
    std::vector<Held> held_;
    std::atomic<std::size_t> count_{0};
  };

  [[nodiscard]] R& runtime() const noexcept { return *device_.context()->runtime; }
  [[nodiscard]] DependencyTracker<R>& tracker() const noexcept {
    return *device_.context()->tracker;
  }
  [[nodiscard]] Shard& shard_of(void* memory) noexcept {
    return shards_[reinterpret_cast<std::uintptr_t>(memory) / kAlignment % kShards];
  }
  static void require_power_of_two(std::size_t alignment) {
    require(std::has_single_bit(alignment),
            "RawAllocator::allocate: alignment ",
            alignment,
            "; expected a power of two");
  }

  [[noreturn]] static void refuse(char const* call, void* memory) {
    std::ostringstream message;
    message << "RawAllocator::" << call << ": " << memory
            << " is not memory of this allocator, or was given back before";
    throw std::invalid_argument(message.str());
  }

  /// A block in which `bytes` so aligned fit.
  memory::BlockRef<R> take(std::size_t bytes, std::size_t alignment, StreamSlot<R>& slot) {
    std::size_t const slack = std::max(alignment, kAlignment) - kAlignment;
    bool const can_add = bytes <= std::numeric_limits<std::size_t>::max() - slack;
    return device_.state()->memory.allocate(can_add ? bytes + slack : bytes, slot, device_.state());
  }
  /// The stream's next work waits for the block's last uses.
  void make_follow(StreamSlot<R>& slot, memory::Block<R> const& block) {
    order::PositionSet needed;
    for_each_use(block, [&](order::Position use) {
      if (!tracker().covers(slot, use)) {
        needed.add(use);
      }
    });
    if (needed.empty()) {
      return;
    }
    if (!tracker().launchable(needed)) {
      InsideWork::refuse("RawAllocator::allocate with memory left that launch threads will use");
    }
    std::lock_guard const guard(slot.issuing);
    tracker().order_after(slot, needed);
  }

  void* hold(memory::BlockRef<R> block, std::size_t alignment, Owner owner) {
    auto const begin = reinterpret_cast<std::uintptr_t>(block->data);
    auto const offset = (begin + alignment - 1) / alignment * alignment - begin;
    void* const memory = block->data + offset;
    auto& shard = shard_of(memory);
    std::lock_guard const guard(shard.mutex);
    shard.held.try_emplace(memory, Held{std::move(block), owner, {}});
    return memory;
  }
  Held let_go(void* memory) {
    auto& shard = shard_of(memory);
    std::lock_guard const guard(shard.mutex);
    auto found = shard.held.extract(memory);
    if (found.empty()) {
      refuse("deallocate", memory);
    }
    return std::move(found.mapped());
  }

  void give_back(Held& held, Native stream) {
    auto const user = streams_.find(stream);
    if (!user.has_value()) {
      if (stream != held.owner.stream) {
        held.owner = {};  // whose next call says nothing of what this stream does
      }
      captured_.add(held);
      return;
    }
    if (!note_other_uses(held)) {
      held.owner = {user->id(), stream};
      captured_.add(held);
      return;
    }
    note_use(held, *user);
    take_back_captured(*user, stream);
  }
  /// False when one of the streams is captured.
  bool note_other_uses(Held& held) {
    for (auto const other : held.others) {
      auto const user = streams_.find(other);
      if (!user.has_value()) {
        return false;
      }
      note_unordered(held, user->mark());
    }
    return true;
  }
  void note_use(Held& held, typename ForeignStreams<R>::Use const& user) {
    auto const position = user.mark();
    if (held.owner.id == user.id() && held.others.empty()) {
      // The stream follows what the block was used for before.
      std::lock_guard const guard(held.block->record.lock);
      held.block->record.log.note_write(position);
    } else {
      note_unordered(held, position);
    }
  }
  static void note_unordered(Held& held, order::Position position) {
    std::lock_guard const guard(held.block->record.lock);
    held.block->record.log.note_unordered_write(position);
  }
  void take_back_captured(typename ForeignStreams<R>::Use const& user, Native stream) {
    for (auto& held : captured_.take({user.id(), stream})) {
      bool noted = false;
      try {
        noted = note_other_uses(held);
      } catch (...) {  // NOLINT(bugprone-empty-catch): somebody else's call: it waits on
      }
      if (noted) {
        note_use(held, user);
      } else {
        captured_.add(held);
      }
    }
  }
  /// Until the allocator goes.
  void keep_for_ever(Held& held) noexcept {
    held.owner = {};
    captured_.add(held);
  }

  Device<R> device_;
  ForeignStreams<R> streams_;
  StreamSlot<R>* no_stream_;  ///< of memory that anybody may use at once: it has no work of its own
  std::array<Shard, kShards> shards_;
  Captured captured_;
};

}  // namespace msstream
