// SPDX-License-Identifier: Apache-2.0
#include "memory/pools/block_pool.hpp"

#include "memory/reports/out_of_memory_error.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace msstream::memory {
namespace {

[[nodiscard]] MemorySnapshot::Range range(Block const& block,
                                          MemorySnapshot::Range::State state,
                                          std::string const& stream) {
  return {reinterpret_cast<std::uintptr_t>(block.data),
          block.bytes,
          state,
          block.scope != nullptr ? *block.scope : std::string(),
          stream};
}

}  // namespace

BlockPool::BlockPool(std::shared_ptr<detail::StreamContext> context,
                     Space space,
                     BlockPoolOptions options)
    : home_(context->home),
      tracker_(context->tracker),
      is_observed_(context->runtime->traits.observes),
      space_(space),
      growth_bytes_(options.growth_bytes),
      wait_for_frees_(options.wait_for_frees),
      has_frees_to_wait_for_(options.has_frees_to_wait_for),
      make_room_(std::move(options.make_room)),
      on_out_of_memory_(std::move(options.on_out_of_memory)),
      account_(std::move(options.account)),
      on_step_(std::move(options.on_step)),
      history_(options.history),
      keep_bytes_(options.keep_bytes),
      rules_(tracker_, space),
      large_(std::move(context),
             space,
             std::move(options.capacity),
             options.growth_bytes,
             options.soft_limit_bytes,
             caches_,
             std::move(options.history),
             options.keep_bytes) {}

void BlockPool::add_to(MemorySnapshot& snapshot) const {
  caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
    auto const name = tracker_->identity_of(index).name;
    cache.for_each_in_use([&](Block const& block) {
      snapshot.ranges.push_back(range(block, MemorySnapshot::Range::State::in_use, name));
    });
    cache.for_each_cached([&](Block const& block) {
      snapshot.ranges.push_back(range(block, MemorySnapshot::Range::State::cached, name));
    });
  });
  large_.for_each_free([&](Block const* block) {
    snapshot.ranges.push_back(range(*block, MemorySnapshot::Range::State::free, {}));
  });
}

std::vector<BlockRef> BlockPool::blocks_in_use() const {
  std::vector<BlockRef> blocks;
  caches_.for_each([&](StreamCache const& cache) {
    cache.for_each_in_use([&](Block& block) { blocks.push_back(BlockRef::share(block)); });
  });
  return blocks;
}

std::vector<ScopeMemory> BlockPool::use_by_scope() const {
  MemoryUseByScope use;
  add_use(use);
  return std::move(use).sorted();
}

void BlockPool::add_use(MemoryUseByScope& use) const {
  caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
    auto const name = tracker_->identity_of(index).name;
    cache.for_each_in_use([&](Block const& block) {
      use.add(block.scope != nullptr ? *block.scope : std::string(), name, block.bytes);
    });
  });
}

void BlockPool::add_use(MemoryUseByStream& use) const {
  caches_.for_each([&](StreamCache const& cache, order::StreamIndex index) {
    auto const account = cache.account();
    use.add(index, tracker_->identity_of(index).name, account.counts, account.live_bytes);
  });
}

MemoryStatistics BlockPool::statistics() const {
  auto const& backing = large_.backing();
  StreamCache::Account total;
  caches_.for_each([&](StreamCache const& cache) {
    auto const account = cache.account();
    total.counts += account.counts;
    total.live_bytes += account.live_bytes;
    total.peak_live_bytes = std::max(total.peak_live_bytes, account.peak_live_bytes);
  });
  return {total.counts,
          total.live_bytes,
          std::max({total.peak_live_bytes, total.live_bytes, caches_.live().peak()}),
          backing.capacity().reserved_bytes(),
          backing.capacity().peak_reserved_bytes(),
          backing.capacity().limit_bytes(),
          backing.growths(),
          keep_bytes_};
}

/// Notes all work issued so far as reads of an immutable block, whose own reads are not tracked.
void BlockPool::note_untracked_reads(Block& block) {
  if (detail::works(detail::Mechanism::reuse_of_frozen)) {
    for (auto const& newest : tracker_->newest_positions()) {
      block.record.log.note_read(newest);
    }
  }
}

OutOfMemory BlockPool::out_of_memory(std::size_t bytes) const {
  auto const largest = large_.backing().arena().access()->largest_free_bytes();
  auto all = account_ ? account_() : MemoryAccount{statistics(), use_by_scope()};
  return out_of_memory_error({space_ == Space::device ? "device" : "pinned",
                              bytes,
                              all.statistics,
                              largest,
                              pending_bytes(),
                              std::move(all.uses)});
}

MemorySnapshot::Event BlockPool::event(MemorySnapshot::Event::Kind kind, Block const& block) {
  return {
      0, kind, reinterpret_cast<std::uintptr_t>(block.data), block.bytes, block.home, block.scope};
}

}  // namespace msstream::memory
