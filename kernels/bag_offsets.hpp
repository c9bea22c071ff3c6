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

  [[nodiscard]] constexpr bool is_bad(std::int64_t bag) const {
    std::int64_t const begin = at[bag];
    std::int64_t const end = at[bag + 1];
    return !is_within(begin, 0, end) || !is_within(end, 0, capacity) ||
           (!agrees_at_once(bag, begin, end, 0, 1) && !agrees(bag, begin, end));
  }
  /// Whether all judges of a bag, or every `step`-th of them from `first` on, are in office and
  /// none contradicts its bounds: what is asked first, because it holds for nearly all bags.
  [[nodiscard]] constexpr bool agrees_at_once(
      std::int64_t bag, std::int64_t begin, std::int64_t end, int first, int step) const {
    return all_judges(bag, first, step, [&](std::int64_t border) {
      std::int64_t const value = at[border];
      return border <= bag ? is_within(value, 0, begin) : is_within(value, end, capacity);
    });
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
  /// What ascending() gives for offsets without a bad bag, by a look at all of them.
  [[nodiscard]] constexpr bool all_ascend() const {
    bool ascend = at[0] >= 0 && at[bags] <= capacity;
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      ascend = ascend & (at[bag] <= at[bag + 1]);
    }
    return ascend;
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
  /// Calls agree(judging border) for those of a bag, or every `step`-th of them from `first` on;
  /// whether all agree.
  template <class Agree>
  [[nodiscard]] constexpr bool all_judges(std::int64_t bag,
                                          int first,
                                          int step,
                                          Agree const& agree) const {
    // Of two neighbouring borders one is odd, which a search finds last: those that it passes judge
    // both. They come behind the first and the last border.
    constexpr int kEnds = 2;
    auto const odd = bag | 1;
    bool all = true;
    for (int i = first; i < kEnds || (bags >> (i - kEnds + 1)) > 0; i += step) {
      int const level = i < kEnds ? 0 : i - kEnds + 1;
      auto const border = i == 0 ? 0 : i == 1 ? bags : ((odd >> level) | 1) << level;
      // No jump, so that no load waits for the comparison before it.
      all = all & ((border > bags) | agree(border > bags ? bags : border));
    }
    return all;
  }
  [[nodiscard]] constexpr bool agrees(std::int64_t bag,
                                      std::int64_t begin,
                                      std::int64_t end) const {
    return all_judges(bag, 0, 1, [&](std::int64_t border) {
      return border <= bag ? judge(border) <= begin : judge(border) >= end;
    });
  }
};

}  // namespace msstream::ops::kernels
