// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/small/live_bytes.hpp"
#include "memory/small/stream_cache.hpp"
#include "stream/stream_registry.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace msstream::memory {

/// The cache of small blocks of each stream that has used a pool. Thread-safe, without a lock.
class StreamCaches {
 public:
  StreamCaches() = default;
  StreamCaches(StreamCaches const&) = delete;
  StreamCaches& operator=(StreamCaches const&) = delete;
  ~StreamCaches() {
    for (auto const& cache : caches_) {
      delete cache.load();
    }
  }

  [[nodiscard]] StreamCache& of(order::StreamIndex stream) {
    auto* const cache = caches_[stream].load(std::memory_order_acquire);
    return cache != nullptr ? *cache : make_for(stream);
  }
  /// Calls `visit(cache)` or `visit(cache, stream)` for each stream's cache.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < end_.load(std::memory_order_acquire); ++i) {
      if (auto* const cache = caches_[i].load(std::memory_order_acquire)) {
        if constexpr (std::is_invocable_v<Visit&, StreamCache&, order::StreamIndex>) {
          visit(*cache, static_cast<order::StreamIndex>(i));
        } else {
          visit(*cache);
        }
      }
    }
  }
  /// Calls `take(cache)` for each cache, the stream's own first, until it returns a block. Returns
  /// null if none does.
  template <class Take>
  [[nodiscard]] Block* search(order::StreamIndex stream, Take&& take) {
    auto& own = of(stream);
    Block* found = take(own);
    for_each([&](StreamCache& cache) {
      if (found == nullptr && &cache != &own) {
        found = take(cache);
      }
    });
    return found;
  }
  /// Sets for all caches, including those made later, whether only blocks in use keep the device
  /// alive.
  void set_abandoned(bool abandoned) {
    abandoned_.store(abandoned);
    for_each([&](StreamCache& cache) {
      static_cast<void>(cache.set_abandoned(abandoned));  // the caller owns the device, too
    });
  }
  [[nodiscard]] LiveBytes& live() noexcept { return live_; }
  [[nodiscard]] LiveBytes const& live() const noexcept { return live_; }

 private:
  [[gnu::noinline, gnu::cold]] StreamCache& make_for(order::StreamIndex stream) {
    auto created = std::make_unique<StreamCache>(live_, stream);
    StreamCache* cache = nullptr;
    if (caches_[stream].compare_exchange_strong(cache, created.get(), std::memory_order_acq_rel)) {
      cache = created.release();
      live_.enter(cache->live());
      raise_end(std::size_t{stream} + 1);
      static_cast<void>(cache->set_abandoned(abandoned_.load()));
    }
    return *cache;
  }
  void raise_end(std::size_t end) noexcept {
    auto seen = end_.load(std::memory_order_relaxed);
    while (seen < end && !end_.compare_exchange_weak(seen, end, std::memory_order_acq_rel)) {
    }
  }

  alignas(64) LiveBytes live_;
  alignas(64) std::array<std::atomic<StreamCache*>, detail::StreamRegistry::kMaxStreams> caches_{};
  std::atomic<std::size_t> end_{0};
  std::atomic<bool> abandoned_{false};
};

}  // namespace msstream::memory
