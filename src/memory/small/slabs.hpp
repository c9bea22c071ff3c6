// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/size_class.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Cuts small blocks from larger ones, the slabs, one slab after the other. A slab can be returned
/// only when all its blocks are free. Thread-safe, with one lock, because allocations seldom need a
/// new block.
class Slabs {
 public:
  static constexpr std::size_t kSlabBytes = std::size_t{2} << 20U;
  static constexpr std::size_t kMostBytes = SizeClass::kMostSmallBytes;

  /// Cuts an unused block from the rest of the newest slab. Returns null if the rest is too small.
  [[nodiscard]] Block* cut(SizeClass wanted) {
    std::lock_guard const guard(mutex_);
    return uncut_bytes_ >= wanted.bytes ? cut_off(wanted) : nullptr;
  }
  /// Cuts a block from the new slab `slab`, and passes the rest of the previous slab, in blocks, to
  /// `spare(block)`. If another thread has added a slab first, cuts from that one and passes the
  /// new one to `give_back(slab)` instead.
  template <class Spare, class GiveBack>
  [[nodiscard]] Block* cut_from(Block* slab,
                                SizeClass wanted,
                                Spare&& spare,
                                GiveBack&& give_back) {
    std::lock_guard const guard(mutex_);
    if (uncut_bytes_ >= wanted.bytes) {
      give_back(slab);
      return cut_off(wanted);
    }
    try {
      slabs_.reserve(slabs_.size() + 1);
      while (uncut_bytes_ >= SizeClass::kLeastBytes) {
        spare(cut_off(SizeClass::within(std::min(uncut_bytes_, kMostBytes))));
      }
    } catch (...) {
      give_back(slab);
      throw;
    }
    slabs_.push_back({slab, {}});
    uncut_bytes_ = slab->bytes;
    return cut_off(wanted);
  }

  /// Passes each slab whose blocks are all free to `give_back(slab)`, and returns whether there was
  /// any. `take(block)` takes a block if it is free; `put_back(block)` returns blocks of a slab
  /// that also has blocks in use.
  template <class Take, class PutBack, class GiveBack>
  bool return_free(Take&& take, PutBack&& put_back, GiveBack&& give_back) {
    std::lock_guard const guard(mutex_);
    std::size_t const before = slabs_.size();
    for (auto place = slabs_.begin(); place != slabs_.end();) {
      if (!take_all(*place, take, put_back)) {
        ++place;
        continue;
      }
      if (std::next(place) == slabs_.end()) {
        uncut_bytes_ = 0;
      }
      Block* const slab = place->memory;
      place = slabs_.erase(place);
      give_back(slab);
    }
    return slabs_.size() != before;
  }

 private:
  struct Slab {
    Block* memory;
    std::vector<std::unique_ptr<Block>> blocks;
  };

  /// Cuts a block from the newest slab, whose rest must be large enough. The block gets the
  /// recorded uses of the slab's memory, so its owner follows them.
  Block* cut_off(SizeClass wanted) {
    auto& slab = slabs_.back();
    auto block = std::make_unique<Block>();
    block->record.log = slab.memory->record.log;
    block->data = slab.memory->data + (slab.memory->bytes - uncut_bytes_);
    block->bytes = wanted.bytes;
    block->size_class = wanted.index;
    slab.blocks.push_back(std::move(block));
    uncut_bytes_ -= wanted.bytes;
    return slab.blocks.back().get();
  }
  /// Takes all blocks of the slab, and notes their uses in the slab's record. If a block cannot be
  /// taken, puts the others back and returns false.
  template <class Take, class PutBack>
  static bool take_all(Slab& slab, Take& take, PutBack& put_back) {
    std::size_t taken = 0;
    bool all = true;
    try {
      while (all && taken < slab.blocks.size()) {
        all = take(slab.blocks[taken].get());
        taken += all ? 1 : 0;
      }
      for (std::size_t i = 0; all && i < taken; ++i) {
        slab.memory->record.log.note_all_of(slab.blocks[i]->record.log);
      }
    } catch (std::bad_alloc const&) {
      all = false;
    }
    for (std::size_t i = 0; !all && i < taken; ++i) {
      put_back(slab.blocks[i].get());
    }
    return all;
  }

  std::mutex mutex_;
  std::vector<Slab> slabs_;      ///< all slabs, the newest last
  std::size_t uncut_bytes_ = 0;  ///< the uncut bytes at the end of the newest slab
};

}  // namespace msstream::memory
