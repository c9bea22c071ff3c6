// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace msstream::detail {

/// A half-open range of addresses; `end` is not part of it.
struct Interval {
  std::uintptr_t begin;
  std::uintptr_t end;

  static Interval of(void const* memory, std::size_t bytes) {
    auto const begin = reinterpret_cast<std::uintptr_t>(memory);
    return {begin, begin + bytes};
  }
  [[nodiscard]] bool empty() const noexcept { return begin == end; }
  [[nodiscard]] bool overlaps(Interval other) const noexcept {
    return begin < other.end && other.begin < end;
  }
  [[nodiscard]] bool contains(Interval other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
};

/// A map from disjoint intervals of addresses to values. Not synchronised.
template <class Value>
class IntervalMap {
 public:
  /// Calls `visit(Interval, Value&)` for every stored interval that overlaps the range.
  template <class Visit>
  void for_each_overlap(Interval range, Visit&& visit) {
    if (range.empty()) {
      return;
    }
    for (auto place = first_overlap(range); place != held_.end() && place->first < range.end;
         ++place) {
      visit(Interval{place->first, place->second.end}, place->second.value);
    }
  }
  /// Returns the value of the range if the range is stored as one interval, otherwise null. Costs
  /// one look-up, and so avoids the slower functions in the most frequent case.
  [[nodiscard]] Value* exact(Interval range) {
    auto const same = held_.find(range.begin);
    return same != held_.end() && same->second.end == range.end ? &same->second.value : nullptr;
  }
  /// Splits stored intervals at both ends of the range, so that each interval is either inside the
  /// range or outside.
  void cut(Interval range) {
    if (!range.empty() && exact(range) == nullptr) {
      cut_at(range.begin);
      cut_at(range.end);
    }
  }
  /// Stores `value` for all parts of the range that have no value yet.
  void fill_gaps(Interval range, Value const& value) {
    auto begin = range.begin;
    for (auto place = first_overlap(range); begin < range.end; ++place) {
      bool const is_last = place == held_.end() || place->first >= range.end;
      auto const gap_end = is_last ? range.end : place->first;
      if (begin < gap_end) {
        held_.emplace(begin, Held{gap_end, value});
      }
      if (is_last) {
        return;
      }
      begin = place->second.end;
    }
  }
  void erase(Interval range) {
    if (range.empty()) {
      return;
    }
    auto const overlap = first_overlap(range);
    if (overlap == held_.end() || overlap->first >= range.end) {
      return;
    }
    cut_at(range.begin);
    cut_at(range.end);
    auto place = held_.lower_bound(range.begin);
    while (place != held_.end() && place->first < range.end) {
      place = held_.erase(place);
    }
  }
  void assign(Interval range, Value value) {
    if (range.empty()) {
      return;
    }
    if (auto* const held = exact(range); held != nullptr) {
      *held = std::move(value);
      return;
    }
    erase(range);
    held_.emplace(range.begin, Held{range.end, std::move(value)});
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [begin, held] : held_) {
      visit(Interval{begin, held.end}, held.value);
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return held_.size(); }

 private:
  struct Held {
    std::uintptr_t end;
    Value value;
  };

  typename std::map<std::uintptr_t, Held>::iterator first_overlap(Interval range) {
    auto place = held_.lower_bound(range.begin);
    if (place != held_.begin()) {
      auto const before = std::prev(place);
      if (before->second.end > range.begin) {
        return before;
      }
    }
    return place;
  }
  void cut_at(std::uintptr_t address) {
    auto const place = first_overlap({address, address});
    if (place != held_.end() && place->first < address && address < place->second.end) {
      Held rest = place->second;
      place->second.end = address;
      held_.emplace(address, std::move(rest));
    }
  }

  std::map<std::uintptr_t, Held> held_;
};

}  // namespace msstream::detail
