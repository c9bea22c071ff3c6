// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// The places [begin, end) of an array.
struct PlaceRange {
  std::int64_t begin;
  std::int64_t end;
};

/// The places of a bag of which no more is known than its bounds.
[[nodiscard]] constexpr std::int64_t length_between(std::int64_t begin, std::int64_t end) {
  return begin >= 0 && end > begin ? end - begin : 0;
}

/// Offsets [bags + 1] from the device, which nobody has checked: bag b has the places
/// [at[b], at[b + 1]) of `capacity`, unless it is bad. Bags that are not bad share no place,
/// whatever the offsets are, so that every operation finds the same bag for a place, and reads no
/// place that does not exist.
///
/// A bag is bad where its bounds are not within [0, capacity], or descend, or contradict an offset
/// that judges it: offset 0, the last one, and those that a binary search for the bag compares
/// with. The judges before a bag must not be above its begin, those behind it not below its end. A
/// judge outside [0, capacity] leaves its office to the next offset that is inside, of the next
/// three; then it is taken for `capacity`. Offsets that ascend within [0, capacity] have no bad
/// bag. Of two bags that overlap one at least is bad, because one offset between them judges both.
///
/// A bag is judged from a logarithm of all offsets. No load waits for another, and the upper judges
/// are the same for all bags.
template <class Id>
struct BagOffsets {
  Id const* at;
  std::int64_t bags;
  std::int64_t capacity;
  bool ascend = false;  ///< somebody has looked at all of them, and no bag is bad

  [[nodiscard]] constexpr bool is_bad(std::int64_t bag) const {
    if (ascend) {
      return false;
    }
    std::int64_t const begin = at[bag];
    std::int64_t const end = at[bag + 1];
    return !is_within(begin, 0, end) || !is_within(end, 0, capacity) ||
           (!all_agree_at_once(bag) && !agrees(bag, begin, end));
  }
  /// The judges of a bag are numbered from 0 on.
  [[nodiscard]] constexpr bool has_judge(int number) const {
    return number < kEnds || (number < kEnds + kMostLevels && (bags >> (number - kEnds + 1)) > 0);
  }
  /// Whether a judge is in office and does not contradict the bag's bounds: what is asked first,
  /// because it holds for nearly all.
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
  /// Whether judge `number` of the bags [first, last], as far as it is no border of theirs, is in
  /// office and contradicts none of them. Where all of these agree, and the offsets of the bags
  /// ascend within [0, capacity], none of the bags is bad: a judge from outside that looks at one
  /// of them looks at the first or the last, for it judges all bags of a range whose middle it is.
  [[nodiscard]] constexpr bool agrees_from_outside(std::int64_t first,
                                                   std::int64_t last,
                                                   int number) const {
    auto const before = judge_of(first, number);
    auto const behind = judge_of(last, number);
    bool agrees = true;
    if (before < first) {
      agrees = at[before] >= 0 && at[before] <= at[first];
    }
    if (behind > last + 1 && behind <= bags) {
      agrees = agrees && at[behind] >= at[last + 1] && at[behind] <= capacity;
    }
    return agrees;
  }
  /// The places of a bag: none of a bad one.
  [[nodiscard]] constexpr PlaceRange places_of(std::int64_t bag) const {
    return is_bad(bag) ? PlaceRange{0, 0} : PlaceRange{at[bag], at[bag + 1]};
  }
  /// Has all bags that are not bad within.
  [[nodiscard]] constexpr PlaceRange all_places() const {
    auto const begin = judge(0);
    auto const end = judge(bags);
    return {begin, end < begin ? begin : end};
  }
  /// The bag that has a place, or -1.
  [[nodiscard]] constexpr std::int64_t bag_of(std::int64_t place) const {
    auto const bag = candidate_for(place);
    if (bag >= bags || is_bad(bag)) {
      return -1;
    }
    return place >= at[bag] && place < at[bag + 1] ? bag : -1;
  }
  /// The only bag that may have a place; `bags` for none. Does not descend with the place.
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
  /// Offset `border` as all judges leave it: the offset itself at the bounds of a bag that is not
  /// bad, ascending with the border, within [0, capacity].
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
  /// After a look at all offsets, which the host affords once an operation.
  [[nodiscard]] constexpr BagOffsets looked_at() const {
    bool all = at[0] >= 0 && at[bags] <= capacity;
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      all = all & (at[bag] <= at[bag + 1]);
    }
    return {at, bags, capacity, all};
  }

  /// The offset that judges in the place of offset `border`.
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
  static constexpr int kEnds = 2;         ///< judges of all bags: the first border and the last
  static constexpr int kMostLevels = 62;  ///< bits of a count

  /// Of two neighbouring borders one is odd, which a search finds last: those that it passes judge
  /// both. Above `bags` where the search passes none.
  [[nodiscard]] constexpr std::int64_t judge_of(std::int64_t bag, int number) const {
    int const level = number - kEnds + 1;
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
