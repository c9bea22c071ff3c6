// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/detail/memory_range.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A map from the memory ranges of tensors to values. All views of the same elements have the same
/// range. Ranges may overlap. If few of them overlap, the usual case, an access takes time
/// logarithmic in their number. References to values are valid until the next emplace() or
/// take_within(). Nodes of removed entries are reused, so that a repeated step allocates none.
template <class Value>
class ByMemory {
 public:
  struct Entry {
    MemoryRange range;
    Value value;
  };

  /// Returns the value stored for exactly this memory range, or null if there is none.
  [[nodiscard]] Value* find(MemoryRange const& range) {
    Value* found = nullptr;
    for_each_near(range, [&](Entry& entry) {
      if (found == nullptr && entry.range == range) {
        found = &entry.value;
      }
    });
    return found;
  }
  /// Adds a value for the range. Iterations visit it after the values that were added earlier for
  /// overlapping ranges.
  Value& emplace(MemoryRange const& range, Value value) {
    auto first = regions_.lower_bound(range.begin);
    auto last = first;
    while (last != regions_.end() && last->first < end_of(range)) {
      ++last;
    }
    if (first != regions_.begin() && std::prev(first)->second.end > range.begin) {
      --first;
    }
    auto begin = range.begin;
    Region merged{end_of(range), {}};
    if (first != last && std::next(first) == last && first->first <= begin &&
        merged.end <= first->second.end) {
      return first->second.entries.emplace_back(Entry{range, std::move(value)}).value;
    }
    if (first == last) {
      return insert(begin, merged.end).entries.emplace_back(Entry{range, std::move(value)}).value;
    }
    for (auto region = first; region != last; ++region) {
      begin = std::min(begin, region->first);
      merged.end = std::max(merged.end, region->second.end);
      std::ranges::move(region->second.entries, std::back_inserter(merged.entries));
    }
    regions_.erase(first, last);
    merged.entries.push_back({range, std::move(value)});
    return regions_.emplace(begin, std::move(merged)).first->second.entries.back().value;
  }
  /// Clears `taken`, and moves all entries into it whose range has elements and lies within
  /// `range`, or equals `range`. Overlapping entries stay in the order of emplace().
  void take_within(MemoryRange const& range, std::vector<Entry>& taken) {
    taken.clear();
    auto region = first_near(regions_, range);
    while (region != regions_.end() && region->first < end_of(range)) {
      auto& entries = region->second.entries;
      auto const kept = std::stable_partition(entries.begin(), entries.end(), [&](auto& entry) {
        return !range.contains(entry.range);
      });
      taken.insert(taken.end(), std::move_iterator(kept), std::move_iterator(entries.end()));
      entries.erase(kept, entries.end());
      auto const next = std::next(region);
      if (entries.empty()) {
        put_aside(region);
      }
      region = next;
    }
  }
  /// Removes all entries whose range equals `range` or shares elements with it.
  void remove_overlaps(MemoryRange const& range) {
    std::vector<MemoryRange> overlapping;
    for_each_overlap(range, [&](Entry const& entry) { overlapping.push_back(entry.range); });
    std::vector<Entry> taken;
    for (auto const& found : overlapping) {
      take_within(found, taken);
    }
  }
  /// Calls function(entry) for each entry whose range equals `range` or shares elements with it.
  template <class Function>
  void for_each_overlap(MemoryRange const& range, Function function) const {
    auto region = first_near(regions_, range);
    for (; region != regions_.end() && region->first < end_of(range); ++region) {
      for (auto const& entry : region->second.entries) {
        if (entry.range.overlaps(range) || entry.range == range) {
          function(entry);
        }
      }
    }
  }
  [[nodiscard]] bool overlaps(MemoryRange const& range) const {
    bool any = false;
    for_each_overlap(range, [&](Entry const&) { any = true; });
    return any;
  }
  /// Returns whether `range` lies within one of the stored ranges.
  [[nodiscard]] bool contains(MemoryRange const& range) const {
    auto const region = first_near(regions_, range);
    return region != regions_.end() &&
           std::ranges::any_of(region->second.entries,
                               [&](Entry const& entry) { return entry.range.contains(range); });
  }
  template <class Function>
  void for_each(Function function) const {
    for (auto const& [begin, region] : regions_) {
      std::ranges::for_each(region.entries, function);
    }
  }
  void clear() noexcept {
    while (!regions_.empty()) {
      put_aside(regions_.begin());
    }
  }

 private:
  /// A maximal set of stored ranges that are connected by overlaps. Different regions share no
  /// memory.
  struct Region {
    std::uintptr_t end;
    std::vector<Entry> entries;
  };
  using Regions = std::map<std::uintptr_t, Region>;

  /// Creates an empty region from `begin` to `end`.
  Region& insert(std::uintptr_t begin, std::uintptr_t end) {
    if (spare_.empty()) {
      return regions_.emplace(begin, Region{end, {}}).first->second;
    }
    auto node = spare_.extract(spare_.begin());
    node.key() = begin;
    node.mapped().end = end;
    return regions_.insert(std::move(node)).position->second;
  }
  void put_aside(typename Regions::iterator region) noexcept {
    region->second.entries.clear();
    spare_.insert(spare_.end(), regions_.extract(region));
  }

  /// Returns the end address of a range. An empty range counts as one byte long, so that it can be
  /// found by its address.
  [[nodiscard]] static std::uintptr_t end_of(MemoryRange const& range) noexcept {
    return std::max(range.end, range.begin + 1);
  }
  /// Returns the first region that ends after the beginning of the range.
  template <class AnyRegions>
  [[nodiscard]] static auto first_near(AnyRegions& regions, MemoryRange const& range) {
    auto region = regions.upper_bound(range.begin);
    if (region != regions.begin() && std::prev(region)->second.end > range.begin) {
      --region;
    }
    return region;
  }
  template <class Function>
  void for_each_near(MemoryRange const& range, Function function) {
    auto region = first_near(regions_, range);
    for (; region != regions_.end() && region->first < end_of(range); ++region) {
      std::ranges::for_each(region->second.entries, function);
    }
  }

  Regions regions_;
  std::multimap<std::uintptr_t, Region> spare_;  ///< empty regions, kept for reuse; their keys have
                                                 ///< no meaning
};

}  // namespace msstream::detail
