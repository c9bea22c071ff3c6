// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/reports/memory_history.hpp"
#include "memory/supply/capacity.hpp"
#include "memory/supply/page_range.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/detail/backend.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::memory {

enum class Space : std::uint8_t { device, pinned };

/// The memory that a pool has from the runtime: pages in one range of addresses, or pieces. Memory
/// is counted before it is taken, so the limit holds, and events are noted in the history. Not
/// synchronised.
class RuntimeMemory {
 public:
  RuntimeMemory(detail::Backend& runtime,
                Space space,
                std::shared_ptr<Capacity> capacity,
                std::shared_ptr<MemoryHistory> history)
      : runtime_(runtime),
        space_(space),
        capacity_(std::move(capacity)),
        history_(std::move(history)),
        range_(runtime,
               space == Space::device ? capacity_->limit_bytes() : 0,
               capacity_->address_bytes()) {}
  RuntimeMemory(RuntimeMemory const&) = delete;
  RuntimeMemory& operator=(RuntimeMemory const&) = delete;
  /// Frees the pieces, on which all work must be complete. Pages are unmapped before.
  ~RuntimeMemory() {
    for (auto const& piece : pieces_) {
      give_back(piece);
      capacity_->give_back(piece.bytes);
    }
  }

  /// Returns the range of addresses. Empty if memory comes in pieces.
  [[nodiscard]] PageRange const& range() const noexcept { return range_; }
  [[nodiscard]] Capacity& capacity() const noexcept { return *capacity_; }
  /// Returns how often memory was taken from the runtime. May be called by any thread.
  [[nodiscard]] std::uint64_t growths() const noexcept { return growths_.load(); }

  /// Maps pages at `at`. False if the limits or the runtime leave no memory.
  [[nodiscard]] bool map(std::byte* at, std::size_t bytes, std::size_t limit_bytes) {
    return take(bytes, limit_bytes, [&] {
      range_.map(at, bytes);
      return at;
    });
  }
  /// Maps pages at other addresses. The old addresses stay mapped until leave().
  void move(std::byte* to, std::byte* from, std::size_t bytes) {
    range_.move(to, from, bytes);
    note(MemorySnapshot::Event::Kind::move, to, bytes);
  }
  void leave(std::byte* from, std::size_t bytes) noexcept { range_.leave(from, bytes); }
  /// Unmaps pages. The caller gives back the capacity when the pages have left all their addresses.
  void unmap(std::byte* at, std::size_t bytes) noexcept {
    range_.unmap(at, bytes);
    note(MemorySnapshot::Event::Kind::release, at, bytes);
  }

  /// Takes a piece from the runtime. Null if the limits or the runtime leave no memory.
  [[nodiscard]] std::byte* take_piece(std::size_t bytes, std::size_t limit_bytes) {
    pieces_.reserve(pieces_.size() + 1);
    return take(bytes, limit_bytes, [&] {
      auto* const memory =
          static_cast<std::byte*>(space_ == Space::device ? runtime_.allocate_device(bytes)
                                                          : runtime_.allocate_pinned(bytes));
      pieces_.push_back({memory, bytes});
      return memory;
    });
  }
  /// Frees the first piece that is `unneeded(begin, bytes)`, but does not give back its capacity.
  /// Returns its bytes, or 0 if there is none.
  template <class Unneeded>
  std::size_t free_piece(Unneeded&& unneeded) {
    auto const place = std::find_if(pieces_.begin(), pieces_.end(), [&](Piece const& piece) {
      return unneeded(piece.begin, piece.bytes);
    });
    if (place == pieces_.end()) {
      return 0;
    }
    Piece const piece = *place;
    pieces_.erase(place);
    give_back(piece);
    note(MemorySnapshot::Event::Kind::release, piece.begin, piece.bytes);
    return piece.bytes;
  }

 private:
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
  };

  /// Counts `bytes` and calls `obtain()`, which returns the memory's address. Null if there is
  /// none.
  template <class Obtain>
  std::byte* take(std::size_t bytes, std::size_t limit_bytes, Obtain&& obtain) {
    if (!capacity_->take(bytes, limit_bytes)) {
      return nullptr;
    }
    std::byte* begin = nullptr;
    try {
      begin = obtain();
    } catch (OutOfMemory const&) {
      capacity_->give_back(bytes);
      return nullptr;
    } catch (...) {
      capacity_->give_back(bytes);
      throw;
    }
    growths_.fetch_add(1, std::memory_order_relaxed);
    note(MemorySnapshot::Event::Kind::grow, begin, bytes);
    runtime_.memory_pooled(begin, bytes);
    return begin;
  }
  void give_back(Piece const& piece) noexcept {
    if (space_ == Space::device) {
      runtime_.free_device(piece.begin, piece.bytes);
    } else {
      runtime_.free_pinned(piece.begin, piece.bytes);
    }
  }
  void note(MemorySnapshot::Event::Kind kind, std::byte const* at, std::size_t bytes) noexcept {
    if (history_ != nullptr) {
      history_->note({0, kind, reinterpret_cast<std::uintptr_t>(at), bytes, 0, nullptr});
    }
  }

  detail::Backend& runtime_;
  Space space_;
  std::shared_ptr<Capacity> capacity_;
  std::shared_ptr<MemoryHistory> history_;  ///< null if events are not recorded
  PageRange range_;
  std::vector<Piece> pieces_;
  std::atomic<std::uint64_t> growths_{0};
};

}  // namespace msstream::memory
