// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block_uses.hpp"
#include "memory/device/device_state.hpp"
#include "stream/foreign_streams.hpp"
#include "stream/inside_work.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/memory/detail/any_raw_allocator.hpp>

#include <fmt/core.h>

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

namespace msstream::detail {

static_assert(AnyRawAllocator::kAlignment == memory::SizeClass::kLeastBytes);

/// The implementation of RawAllocator for all runtimes: the memory that it has allocated, by
/// address.
class AnyRawAllocator::State {
 public:
  explicit State(std::shared_ptr<DeviceState> device)
      : device_(std::move(device)),
        streams_(device_->context),
        no_stream_(&tracker().attach({}, device_->context->events, {"host"})) {}
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (device_->context->home.is_left()) {
      return;
    }
    Backend::Visit const visit(runtime());
    for (auto& shard : shards_) {
      shard.held.clear();
    }
    captured_.clear();
    tracker().detach(*no_stream_);
  }

  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, NativeStream stream) {
    require_power_of_two(alignment);
    if (bytes == 0) {
      return nullptr;
    }
    device_->context->home.require_here();
    Backend::Visit const visit(runtime());
    auto const user = streams_.find(stream);
    if (!user.has_value()) {
      throw std::logic_error(
          fmt::format("RawAllocator::allocate: {} bytes asked on a stream that is captured: "
                      "allocate before the capture what its graph uses",
                      bytes));
    }
    take_back_captured(*user, stream);
    auto block = take(bytes, alignment, user->slot());
    make_follow(*user, *block);
    return hold(std::move(block), alignment, {user->id(), stream});
  }
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) {
    require_power_of_two(alignment);
    if (bytes == 0) {
      return nullptr;
    }
    device_->context->home.require_here();
    InsideWork::refuse_wait("RawAllocator::allocate without a stream");
    Backend::Visit const visit(runtime());
    auto block = take(bytes, alignment, *no_stream_);
    memory::for_each_use(*block, [&](order::Position use) { tracker().synchronize(use); });
    return hold(std::move(block), alignment, {});
  }

  void deallocate(void* memory, NativeStream stream) {
    if (memory == nullptr ||
        device_->context->home.is_left()) {  // ignored: destructors may call deallocate() then
      return;
    }
    Backend::Visit const visit(runtime());
    auto held = let_go(memory);
    try {
      give_back(held, stream);
    } catch (...) {
      keep_for_ever(held);  // which work still uses the memory is unknown
      throw;
    }
  }
  void deallocate(void* memory) {
    if (memory == nullptr ||
        device_->context->home.is_left()) {  // ignored: destructors may call deallocate() then
      return;
    }
    Backend::Visit const visit(runtime());
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

  void record_use(void* memory, NativeStream stream) {
    device_->context->home.require_here();
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

  [[nodiscard]] bool has(void* memory) {
    auto& shard = shard_of(memory);
    std::lock_guard const guard(shard.mutex);
    return shard.held.contains(memory);
  }

 private:
  static constexpr std::size_t kShards = 64;

  /// The stream for which memory was allocated.
  struct Owner {
    /// The id of the stream; by default an id that no stream has, for memory that any stream may
    /// use.
    std::uint64_t id = std::numeric_limits<std::uint64_t>::max();
    NativeStream stream{};
  };
  struct Held {
    memory::BlockRef block;
    Owner owner;
    std::vector<NativeStream> others;  ///< the streams passed to record_use()
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<void*, Held> held;
  };
  /// Memory that was deallocated while its stream was captured. Until the capture ends, there is no
  /// position that covers the memory's uses, so the memory is kept until the next call for the same
  /// stream.
  class Captured {
   public:
    void add(Held& held) noexcept {
      std::lock_guard const guard(mutex_);
      try {
        held_.push_back(std::move(held));
        count_.store(held_.size());
      } catch (std::bad_alloc const&) {
        // If the host has no memory to keep the block in the list, the extra reference keeps it
        // from ever being reused.
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

  [[nodiscard]] Backend& runtime() const noexcept { return *device_->context->runtime; }
  [[nodiscard]] DependencyTracker& tracker() const noexcept { return *device_->context->tracker; }
  [[nodiscard]] Shard& shard_of(void* memory) noexcept {
    return shards_[reinterpret_cast<std::uintptr_t>(memory) / kAlignment % kShards];
  }
  static void require_power_of_two(std::size_t alignment) {
    require(std::has_single_bit(alignment),
            "RawAllocator::allocate: alignment {}; expected a power of two",
            alignment);
  }

  [[noreturn]] static void refuse(char const* call, void* memory) {
    std::ostringstream message;
    message << "RawAllocator::" << call << ": " << memory
            << " is not memory of this allocator, or was given back before";
    throw std::invalid_argument(message.str());
  }

  /// Takes a block from the pool. The block has room for `bytes` at this alignment.
  memory::BlockRef take(std::size_t bytes, std::size_t alignment, StreamSlot& slot) {
    std::size_t const slack = std::max(alignment, kAlignment) - kAlignment;
    bool const can_add = bytes <= std::numeric_limits<std::size_t>::max() - slack;
    return device_->memory.allocate(can_add ? bytes + slack : bytes, slot, device_);
  }
  /// Makes the stream's next work follow the block's last uses.
  void make_follow(ForeignStreams::Use const& user, memory::Block const& block) {
    order::PositionSet needed;
    memory::for_each_use(block, [&](order::Position use) {
      if (!tracker().covers(user.slot(), use)) {
        needed.add(use);
      }
    });
    if (needed.empty()) {
      return;
    }
    if (!tracker().launchable(needed)) {
      InsideWork::refuse("RawAllocator::allocate with memory left that launch threads will use");
    }
    user.follow(needed);
  }

  void* hold(memory::BlockRef block, std::size_t alignment, Owner owner) {
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

  void give_back(Held& held, NativeStream stream) {
    auto const user = streams_.find(stream);
    if (!user.has_value()) {
      if (stream != held.owner.stream) {
        held.owner = {};  // the next call for the old stream does not cover this stream
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
  /// Notes uses of the memory on the streams passed to record_use(). Returns false if one of the
  /// streams is captured.
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
  void note_use(Held& held, ForeignStreams::Use const& user) {
    auto const position = user.mark();
    if (held.owner.id == user.id() && held.others.empty()) {
      // The stream already follows all recorded uses of the block, so the stream's new position
      // replaces those uses in the record.
      std::lock_guard const guard(held.block->record.lock);
      held.block->record.note(AccessMode::write, position);
    } else {
      note_unordered(held, position);
    }
  }
  static void note_unordered(Held& held, order::Position position) {
    std::lock_guard const guard(held.block->record.lock);
    held.block->record.note_foreign(AccessMode::write, position);
  }
  void take_back_captured(ForeignStreams::Use const& user, NativeStream stream) {
    for (auto& held : captured_.take({user.id(), stream})) {
      bool noted = false;
      try {
        noted = note_other_uses(held);
      } catch (...) {  // NOLINT(bugprone-empty-catch): the memory is kept for a later call
      }
      if (noted) {
        note_use(held, user);
      } else {
        captured_.add(held);
      }
    }
  }
  /// Keeps the memory in use until the allocator is destroyed.
  void keep_for_ever(Held& held) noexcept {
    held.owner = {};
    captured_.add(held);
  }

  std::shared_ptr<DeviceState> device_;
  ForeignStreams streams_;
  /// The tracker's entry for a stream that never gets work. Blocks from allocate() without a stream
  /// are allocated for it: the host waits for their earlier uses, so any stream may use them at
  /// once.
  StreamSlot* no_stream_;
  std::array<Shard, kShards> shards_;
  Captured captured_;
};

AnyRawAllocator::AnyRawAllocator(AnyDevice const& device)
    : state_(std::make_unique<State>(device.state())) {}
AnyRawAllocator::~AnyRawAllocator() = default;

void* AnyRawAllocator::allocate(std::size_t bytes, std::size_t alignment, NativeStream stream) {
  return state_->allocate(bytes, alignment, stream);
}
void* AnyRawAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  return state_->allocate(bytes, alignment);
}
void AnyRawAllocator::deallocate(void* memory, NativeStream stream) {
  state_->deallocate(memory, stream);
}
void AnyRawAllocator::deallocate(void* memory) {
  state_->deallocate(memory);
}
void AnyRawAllocator::record_use(void* memory, NativeStream stream) {
  state_->record_use(memory, stream);
}
bool AnyRawAllocator::has(void* memory) {
  return state_->has(memory);
}

}  // namespace msstream::detail
