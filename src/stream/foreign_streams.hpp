// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_context.hpp"

#include <msstream/runtime/interop.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace msstream::detail {

/// The dependency tracker's slots for streams that msstream did not make. A stream gets its slot
/// when it is first seen.
///
/// Nothing reports that such a stream is destroyed. A stream is therefore identified by its id, not
/// by its handle, and each of its positions has an event. Now and then, the slots of streams whose
/// positions are all complete are freed; a stream that is used again gets a new slot. Thread-safe.
class ForeignStreams {
  struct Entry {
    ForeignStream stream;
    StreamSlot* slot;
    std::atomic<std::uint32_t> uses{0};
  };

 public:
  using Native = NativeStream;

  /// A guard that keeps a foreign stream's slot from being freed. For use only by the thread that
  /// found the stream, while the stream exists.
  class Use {
   public:
    Use(Use&& other) noexcept
        : tracker_(other.tracker_), entry_(std::exchange(other.entry_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (entry_ != nullptr) {
        entry_->uses.fetch_sub(1, std::memory_order_release);
      }
    }

    [[nodiscard]] std::uint64_t id() const noexcept { return entry_->stream.id; }
    [[nodiscard]] StreamSlot& slot() const noexcept { return *entry_->slot; }
    /// Makes the stream's next work follow the positions. First blocks the host until their
    /// operations are launched.
    void follow(order::PositionSet& needed) const {
      std::lock_guard const guard(slot().issuing);
      tracker_->order_after(slot(), needed);
    }
    /// Returns a position that covers all work put on the stream so far. The stream may be
    /// destroyed afterwards.
    [[nodiscard]] order::Position mark() const noexcept {
      return entry_->stream.stays ? tracker_->mark(slot()) : tracker_->mark_with_event(slot());
    }

   private:
    friend class ForeignStreams;
    /// Takes a use of the entry. The caller must hold the lock of the entry's shard.
    Use(DependencyTracker& tracker, Entry& entry) noexcept : tracker_(&tracker), entry_(&entry) {
      entry.uses.fetch_add(1, std::memory_order_relaxed);
    }

    DependencyTracker* tracker_;
    Entry* entry_;
  };

  explicit ForeignStreams(std::shared_ptr<StreamContext> context) : context_(std::move(context)) {}
  ForeignStreams(ForeignStreams const&) = delete;
  ForeignStreams& operator=(ForeignStreams const&) = delete;
  ~ForeignStreams() {
    for (auto& shard : shards_) {
      for (auto& [id, entry] : shard.entries) {
        context_->tracker->detach(*entry.slot);
      }
    }
  }

  /// Returns a use of the stream's slot, or nothing while the stream is being captured.
  [[nodiscard]] std::optional<Use> find(Native native) {
    auto const stream = context_->runtime->identify(native);
    if (!stream.has_value()) {
      return std::nullopt;
    }
    auto& shard = shards_[stream->id % kShards];
    {
      std::lock_guard const guard(shard.mutex);
      if (auto const found = shard.entries.find(stream->id); found != shard.entries.end()) {
        return Use(*context_->tracker, found->second);
      }
    }
    if (count_.load() >= forget_at_.load()) {
      forget_what_is_over();
    }
    std::lock_guard const guard(shard.mutex);
    auto const [place, is_new] = shard.entries.try_emplace(stream->id);
    auto& entry = place->second;
    if (is_new) {
      try {
        entry.slot = &context_->tracker->attach(native, context_->events, {name_of(*stream)});
      } catch (...) {
        shard.entries.erase(place);
        throw;
      }
      entry.stream = *stream;
      count_.fetch_add(1);
    }
    return Use(*context_->tracker, entry);
  }

  /// Returns the number of foreign streams that have a slot.
  [[nodiscard]] std::size_t count() const noexcept { return count_.load(); }

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kFew = 256;

  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, Entry> entries;
  };

  static std::string name_of(ForeignStream const& stream) {
    return stream.stays ? "default stream" : fmt::format("foreign stream {}", stream.id);
  }
  void forget_what_is_over() {
    for (auto& shard : shards_) {
      std::lock_guard const guard(shard.mutex);
      count_.fetch_sub(std::erase_if(shard.entries, [&](auto& held) {
        auto& entry = held.second;
        if (entry.uses.load(std::memory_order_acquire) != 0 || entry.stream.stays ||
            !context_->tracker->is_idle(*entry.slot)) {
          return false;
        }
        context_->tracker->detach(*entry.slot);
        return true;
      }));
    }
    forget_at_.store(std::max(kFew, 2 * count_.load()));
  }

  std::shared_ptr<StreamContext> context_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> forget_at_{kFew};
};

}  // namespace msstream::detail
