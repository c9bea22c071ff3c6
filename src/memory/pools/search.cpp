// SPDX-License-Identifier: Apache-2.0
// The search of a pool for memory: runs the steps of SearchOrder, and implements the steps for
// small blocks and those that search again.
#include "base/mechanism.hpp"
#include "memory/blocks/size_bins.hpp"
#include "memory/pools/block_pool.hpp"
#include "memory/pools/search_order.hpp"

#include <algorithm>
#include <optional>
#include <thread>

namespace msstream::memory {

/// Returns a block for the request, free or cut from fresh memory. Throws OutOfMemory.
Block* BlockPool::find(std::size_t bytes, detail::StreamSlot& stream) {
  auto const limit = large_.backing().capacity().limit_bytes();
  bool const can_be = bytes <= std::min(limit, SizeClass::kMostBytes);
  Search search{bytes, stream, &hands_};
  for (;;) {
    Block* const block = try_steps(
        search, can_be ? SearchOrder::kFirst : SearchOrder::kCallback, SearchOrder::kCallback);
    if (block != nullptr) {
      return block;
    }
  }
}

/// Tries the steps from `first` to `last`, and returns the block of the first step that finds one;
/// null if none does.
Block* BlockPool::try_steps(Search& search, int first, int last) {
  bool const is_small = search.bytes <= Slabs::kMostBytes;
  auto const return_all_slabs = [&] { return return_slabs(search.hands); };
  auto const bytes = is_small ? search.bytes : SizeBin::round_up(search.bytes);
  LargeRequest large{bytes, bytes, search.stream, return_all_slabs, search.hands};
  Block* block = nullptr;
  for (int number = first; number <= last && block == nullptr; ++number) {
    if (on_step_ != nullptr) [[unlikely]] {
      on_step_(number);
    }
    auto const& step = SearchOrder::step(number);
    if (step.both != nullptr) {
      block = (this->*step.both)(search);
    } else if (!is_small) {
      block = (large_.*step.large)(large);
    } else if (step.small != nullptr) {
      block = (this->*step.small)(search);
    }
  }
  return block;
}

/// Takes a free small block that needs no wait. Device memory needs none if the stream follows its
/// uses or they are known to be complete, pinned memory only if they are known to be complete. The
/// runtime is queried only for pinned memory: for device memory, a query records an event, so fresh
/// memory is tried first.
Block* BlockPool::take_ready(Search& search) {
  if (auto* const block = cut_for_rival(search)) {
    return block;
  }
  auto const wanted = SizeClass::of(search.bytes);
  auto* const block = reusable(wanted.index, search.stream);
  return block != nullptr || space_ == Space::device
             ? block
             : reusable_when_asked(wanted.index, search.stream);
}

/// Cuts a block from the newest slab, or from a new slab whose memory needs no wait.
Block* BlockPool::cut_without_wait(Search& search) {
  auto const wanted = SizeClass::of(search.bytes);
  auto* const block = slabs_.cut(wanted);
  return block != nullptr ? block : cut_from_new_slab(search, [&](LargeRequest const& slab) {
    return find_large(large_, slab, SearchOrder::kFirst, SearchOrder::kShares);
  });
}

Block* BlockPool::take_after_asking(Search& search) {
  return space_ == Space::device
             ? reusable_when_asked(SizeClass::of(search.bytes).index, search.stream)
             : nullptr;
}

Block* BlockPool::take_any(Search& search) {
  auto const wanted = SizeClass::of(search.bytes).index;
  return any_free(wanted, wanted + kLargerClassesTried, search.stream);
}

/// Cuts a block from a new slab, for whose memory the stream may have to wait.
Block* BlockPool::cut_any(Search& search) {
  return cut_from_new_slab(search, [&](LargeRequest const& slab) {
    return find_large(large_, slab, SearchOrder::kShares, SearchOrder::kHardLimit);
  });
}

Block* BlockPool::take_any_larger(Search& search) {
  return any_free(SizeClass::of(search.bytes).index, SizeClass::kSmallCount - 1, search.stream);
}

/// Makes other pools release memory, and searches again while no other thread holds free memory.
/// Repeats the search as long as memory was released, probably for this request.
Block* BlockPool::search_after_room_is_made(Search& search) {
  search.deadline = std::chrono::steady_clock::now() + wait_for_frees_;
  search.tries_of_room_made = kTriesOfRoomMade;
  return search_with_room(search);
}

/// Sleeps and searches again, as long as other pools may release memory, the device still uses free
/// memory, or there is enough memory that other threads take first. Stops after `wait_for_frees_`,
/// because work on the device may depend on the calling thread.
Block* BlockPool::search_while_waiting(Search& search) {
  Block* block = nullptr;
  while (block == nullptr && search.has_hope &&
         std::chrono::steady_clock::now() < search.deadline) {
    std::this_thread::sleep_for(kBetweenLooks);
    tracker_->look_what_is_complete();
    block = search_with_room(search);
  }
  return block;
}

/// Calls `on_out_of_memory_`, and returns null so that the search begins anew. Throws OutOfMemory
/// if there is no such function, or it returns false because it has released nothing.
Block* BlockPool::search_after_callback(Search& search) {
  auto const limit = large_.backing().capacity().limit_bytes();
  bool const can_be = search.bytes <= std::min(limit, SizeClass::kMostBytes);
  auto const error = out_of_memory(search.bytes);
  if (can_be && on_out_of_memory_ && on_out_of_memory_(error)) {
    return nullptr;
  }
  if (history_ != nullptr) {
    history_->note({0,
                    MemorySnapshot::Event::Kind::refuse,
                    0,
                    search.bytes,
                    search.stream.index,
                    NameScope::kept()});
  }
  throw error;
}

Block* BlockPool::search_with_room(Search& search) {
  Room room = Room::none;
  do {
    room = make_room_ ? make_room_() : Room::none;
    std::lock_guard const guard(hands_);
    Search alone{search.bytes, search.stream, nullptr};
    if (auto* const block = try_steps(alone, SearchOrder::kFirst, SearchOrder::kHardLimit)) {
      return block;
    }
    search.has_hope = room != Room::none ||
                      (has_frees_to_wait_for_ && large_.pending_bytes() != 0) ||
                      large_.has_pages_for(SizeBin::round_up(search.bytes));
  } while (room == Room::made && --search.tries_of_room_made > 0);
  return nullptr;
}

/// Cuts a new block for a stream that often takes free blocks from other threads' streams and loses
/// as many to them, as long as PartForRivals permits. Returns null for all other streams.
Block* BlockPool::cut_for_rival(Search& search) {
  auto const wanted = SizeClass::of(search.bytes);
  if (space_ != Space::device || !caches_.of(search.stream.index).rivalry().take_too_few() ||
      !part_for_rivals_.take(wanted.bytes, large_.backing().capacity().limit_bytes())) {
    return nullptr;
  }
  auto* block = slabs_.cut(wanted);
  if (block == nullptr) {
    block = cut_from_new_slab(
        search, [&](LargeRequest const& slab) { return large_.take_for_rival(slab); });
  }
  if (block == nullptr) {
    part_for_rivals_.give_back(wanted.bytes);
  }
  return block;
}

/// Takes a free block of the size class that needs no wait. Device memory needs none if the stream
/// follows its uses or they are known to be complete, pinned memory only if they are known to be
/// complete.
Block* BlockPool::reusable(std::size_t size_class, detail::StreamSlot& stream) {
  auto const over = [this](auto const& block) {
    return rules_.is_known_to_be_over(block) ||
           (space_ == Space::pinned && !detail::works(detail::Mechanism::pinned_reuse));
  };
  auto const followed = [&](auto const& block) { return rules_.is_followed(block, stream); };
  auto& rivalry = caches_.of(stream.index).rivalry();
  rivalry.note_search();
  Block* const found = caches_.search(stream.index, [&](auto& cache) {
    return space_ == Space::pinned ? cache.take_over(size_class, over)
                                   : cache.take_ready(size_class, followed, over);
  });
  if (found != nullptr && found->home != stream.index) {
    rivalry.note_taken_from(caches_.of(found->home).rivalry());
  }
  return found;
}

/// Queries the runtime about the oldest free blocks of the size class, whose uses are the likeliest
/// to be complete, and takes a block that needs no wait. Queries without a lock.
Block* BlockPool::reusable_when_asked(std::size_t size_class, detail::StreamSlot& stream) {
  std::size_t const looks = space_ == Space::device ? 1 : StreamCache::kLooks;
  bool is_over = false;
  for (std::size_t place = 0; place < looks && !is_over; ++place) {
    caches_.for_each([&](StreamCache const& cache) {
      auto const uses = is_over ? std::nullopt : cache.uses_of(size_class, place);
      is_over = is_over || (uses.has_value() &&
                            std::all_of(uses->begin(), uses->end(), [this](order::Position use) {
                              return tracker_->is_complete(use);
                            }));
    });
  }
  return is_over ? reusable(size_class, stream) : nullptr;
}

/// Takes the oldest free device block of the size class `first`, or of a larger one up to `last`;
/// from the stream's own cache first. The stream may have to wait for the block's last uses.
Block* BlockPool::any_free(std::size_t first, std::size_t last, detail::StreamSlot& stream) {
  Block* found = nullptr;
  if (space_ == Space::device) {
    last = std::min(last, SizeClass::kSmallCount - 1);
    for (std::size_t index = first; index <= last && found == nullptr; ++index) {
      found = caches_.search(stream.index, [&](auto& cache) { return cache.take_oldest(index); });
    }
  }
  return found;
}

/// Cuts a block from a new slab of the usual size or, if there is no memory for it, of the size of
/// the block. `obtain(request)` returns the memory of the slab.
template <class Obtain>
Block* BlockPool::cut_from_new_slab(Search& search, Obtain&& obtain) {
  auto const wanted = SizeClass::of(search.bytes);
  auto const usual = std::max(wanted.bytes, std::min(Slabs::kSlabBytes, growth_bytes_));
  auto const in_hand = take_in_hand(search.hands);
  auto const return_all_slabs = [&] { return return_slabs(nullptr); };
  LargeRequest request{
      SizeBin::round_up(usual), wanted.bytes, search.stream, return_all_slabs, nullptr, true};
  Block* slab = obtain(request);
  if (slab == nullptr && usual > wanted.bytes) {
    request.bytes = SizeBin::round_up(wanted.bytes);
    slab = obtain(request);
  }
  if (slab == nullptr) {
    return nullptr;
  }
  return slabs_.cut_from(
      slab,
      wanted,
      [this](Block* spare) { caches_.of(0).put(spare); },
      [this](Block* unneeded) { large_.put(unneeded); });
}

/// Turns slabs whose blocks are all free into large blocks. Returns whether there were any.
bool BlockPool::return_slabs(Hands* hands) {
  auto const in_hand = take_in_hand(hands);
  bool const any = slabs_.return_free(
      [this](Block* block) {
        bool taken = false;
        caches_.for_each([&](StreamCache& cache) { taken = taken || cache.take_this(block); });
        return taken;
      },
      [this](Block* block) { caches_.of(block->home).put(block); },
      [this](Block* slab) { large_.put(slab); });
  if (any) {
    part_for_rivals_.give_back_all();
  }
  return any;
}

}  // namespace msstream::memory
