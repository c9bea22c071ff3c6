// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// A range [begin, end) of indices into an array.
struct PlaceRange {
  std::int64_t begin;
  std::int64_t end;
};

/// Returns the length of a bag from its two offsets; 0 if `begin` is negative or the offsets
/// descend.
[[nodiscard]] constexpr std::int64_t length_between(std::int64_t begin, std::int64_t end) {
  return begin >= 0 && end > begin ? end - begin : 0;
}

/// Unchecked offsets [bags + 1] in device memory: bag b has the positions [at[b], at[b + 1]) of an
/// array of `capacity` elements, or none if the bag is bad (has invalid offsets). Bags that are not
/// bad never overlap, whatever the offsets are, so that every operation finds the same bag for a
/// position and reads no position that does not exist.
///
/// A bag is bad if its bounds are outside [0, capacity], or descend, or contradict an offset that
/// judges the bag: offset 0, the last offset, and the offsets that a binary search for the bag
/// compares with. A judge before the bag must not be above the bag's begin, a judge after it not
/// below the bag's end. If a judge is outside [0, capacity], the first of the next three offsets
/// that is inside replaces it; if none is, `capacity` does. Offsets that ascend within [0,
/// capacity] have no bad bag. Of two bags that overlap at least one is bad, because one offset
/// between them judges both.
///
/// Judging a bag takes a number of loads logarithmic in the number of bags. No load depends on
/// another, and the judges from the upper levels of the search are common to all bags.
template <class Id>
struct BagOffsets {
  Id const* at;
  std::int64_t bags;
  std::int64_t capacity;
  bool ascend = false;  ///< true if all offsets have been checked and no bag is bad

  [[nodiscard]] constexpr bool is_bad(std::int64_t bag) const {
    if (ascend) {
      return false;
    }
    std::int64_t const begin = at[bag];
    std::int64_t const end = at[bag + 1];
    return !is_within(begin, 0, end) || !is_within(end, 0, capacity) ||
           (!all_agree_at_once(bag) && !agrees(bag, begin, end));
  }
  /// Returns whether a bag has a judge `number`, counted from 0. A judge is an offset that a bag
  /// with valid offsets must not contradict.
  [[nodiscard]] constexpr bool has_judge(std::int64_t number) const {
    return number < kEnds || (number < kEnds + kMostLevels && (bags >> (number - kEnds + 1)) > 0);
  }
  /// Returns whether judge `number` of a bag (an offset that the bag must not contradict) is within
  /// [0, capacity] and agrees with the bag's bounds. The quick test comes before the full one
  /// because nearly all bags pass it.
  [[nodiscard]] constexpr bool agrees_at_once(std::int64_t bag,
                                              Id begin,
                                              Id end,
                                              int number) const {
    auto const border = judge_of(bag, number);
    if (border > bags) {
      return true;
    }
    Id const value = at[border];
    return border <= bag ? value >= 0 && value <= begin : value >= end && value <= capacity;
  }
  /// Checks bag first + `number` of the bags [first, last], if there is one, and judge `number` (an
  /// offset that a bag must not contradict) of the first bag if the judge is before the range, and
  /// of the last bag if it is after the range. Returns whether the bounds of the bag ascend within
  /// [0, capacity], and the judges are within it and contradict none of the bags. If the result is
  /// true for every number, none of the bags is bad: an offset judges all bags of the search range
  /// whose middle it is, so an outside judge of any of these bags also judges the first or the last
  /// one.
  ///
  /// The last bag replaces a bag that does not exist, and a bound of the range replaces a judge
  /// that does not exist or is within the range; the replacements pass if the other numbers do.
  /// Thus no load depends on another, and all can be in flight at once.
  [[nodiscard]] constexpr bool passes(std::int64_t first,
                                      std::int64_t last,
                                      std::int64_t number) const {
    auto const bag = first + number < last ? first + number : last;
    auto before = first;
    auto behind = last + 1;
    if (has_judge(number)) {
      auto const of_first = judge_of(first, number);
      auto const of_last = judge_of(last, number);
      before = of_first < before ? of_first : before;
      behind = of_last > behind && of_last <= bags ? of_last : behind;
    }
    Id const range_begin = at[first];
    Id const range_end = at[last + 1];
    Id const begin = at[bag];
    Id const end = at[bag + 1];
    Id const judge_before = at[before];
    Id const judge_behind = at[behind];
    return (begin >= 0) & (begin <= end) & (end <= capacity) & (judge_before >= 0) &
           (judge_before <= range_begin) & (judge_behind >= range_end) & (judge_behind <= capacity);
  }
  /// Returns the positions of a bag; none if the bag has invalid offsets.
  [[nodiscard]] constexpr PlaceRange places_of(std::int64_t bag) const {
    return is_bad(bag) ? PlaceRange{0, 0} : PlaceRange{at[bag], at[bag + 1]};
  }
  /// Returns a range of positions that contains all bags with valid offsets.
  [[nodiscard]] constexpr PlaceRange all_places() const {
    auto const begin = judge(0);
    auto const end = judge(bags);
    return {begin, end < begin ? begin : end};
  }
  /// Returns the bag that contains a position, or -1 if no bag with valid offsets does.
  [[nodiscard]] constexpr std::int64_t bag_of(std::int64_t place) const {
    auto const bag = candidate_for(place);
    if (bag >= bags || is_bad(bag)) {
      return -1;
    }
    return place >= at[bag] && place < at[bag + 1] ? bag : -1;
  }
  /// Returns the only bag that may contain a position, or `bags` if none may. A greater position
  /// never gives a lower bag.
  [[nodiscard]] constexpr std::int64_t candidate_for(std::int64_t place) const {
    std::int64_t found = 0;
    for (auto step = largest_step(); step > 0; step /= 2) {
      auto const next = found + step;
      if (next <= bags && judge(next) <= place) {
        found = next;
      }
    }
    return found;
  }
  /// Returns offset `border` (the bound between two bags), limited by the offsets that judge it.
  /// The results ascend with `border` within [0, capacity], and equal the offsets at the bounds of
  /// bags with valid offsets.
  [[nodiscard]] constexpr std::int64_t ascending(std::int64_t border) const {
    if (ascend) {
      return at[border];
    }
    auto low = judge(0);
    auto high = limited(judge(bags), low, capacity);
    std::int64_t found = 0;
    for (auto step = largest_step(); step > 0 && found != border; step /= 2) {
      auto const next = found + step;
      if (next > bags) {
        continue;
      }
      auto const value = limited(judge(next), low, high);
      if (next <= border) {
        low = value;
        found = next;
      } else {
        high = value;
      }
    }
    return low;
  }
  /// Returns a copy of the offsets with `ascend` set to whether all offsets ascend within [0,
  /// capacity]. Reads all offsets, which the host can afford once per operation.
  [[nodiscard]] constexpr BagOffsets looked_at() const {
    bool all = at[0] >= 0 && at[bags] <= capacity;
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      all = all & (at[bag] <= at[bag + 1]);
    }
    return {at, bags, capacity, all};
  }

  /// Returns the value with which bags must agree at offset `border`: the offset if it is within
  /// [0, capacity], otherwise the first of the next three offsets that is, otherwise `capacity`.
  [[nodiscard]] constexpr std::int64_t judge(std::int64_t border) const {
    constexpr std::int64_t kSubstitutes = 3;
    for (auto i = border; i <= bags && i <= border + kSubstitutes; ++i) {
      if (is_within(at[i], 0, capacity)) {
        return at[i];
      }
    }
    return capacity;
  }

 private:
  [[nodiscard]] static constexpr bool is_within(std::int64_t value,
                                                std::int64_t low,
                                                std::int64_t high) {
    return value >= low && value <= high;
  }
  [[nodiscard]] static constexpr std::int64_t limited(std::int64_t value,
                                                      std::int64_t low,
                                                      std::int64_t high) {
    return value < low ? low : value > high ? high : value;
  }
  [[nodiscard]] constexpr std::int64_t largest_step() const {
    std::int64_t step = 1;
    while (step <= bags / 2) {
      step *= 2;
    }
    return step;
  }
  /// The number of offsets that judge all bags: the first and the last.
  static constexpr int kEnds = 2;
  static constexpr int kMostLevels = 62;  ///< most levels of a binary search: the bits of a count

  /// Returns the index of judge `number` of a bag (an offset that the bag must not contradict);
  /// above `bags` if the binary search for the bag has no such judge. One of the bag's two bounds
  /// has an odd index, which the search finds last, so that the offsets on its way judge both
  /// bounds.
  [[nodiscard]] constexpr std::int64_t judge_of(std::int64_t bag, std::int64_t number) const {
    auto const level = number - kEnds + 1;
    return number == 0 ? 0 : number == 1 ? bags : (((bag | 1) >> level) | 1) << level;
  }
  [[nodiscard]] constexpr bool all_agree_at_once(std::int64_t bag) const {
    bool all = true;
    for (int number = 0; has_judge(number); ++number) {
      all = all & agrees_at_once(bag, at[bag], at[bag + 1], number);
    }
    return all;
  }
  [[nodiscard]] constexpr bool agrees(std::int64_t bag,
                                      std::int64_t begin,
                                      std::int64_t end) const {
    bool all = true;
    for (int number = 0; has_judge(number); ++number) {
      auto const border = judge_of(bag, number);
      all =
          all && (border > bags || (border <= bag ? judge(border) <= begin : judge(border) >= end));
    }
    return all;
  }
};

}  // namespace msstream::ops::kernels
