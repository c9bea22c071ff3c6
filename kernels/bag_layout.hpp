// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hash_functions.hpp"

#include <msstream/ops/kernels/embedding.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The places [begin, end) of an array.
struct PlaceRange {
  std::int64_t begin;
  std::int64_t end;
};

/// What the device says, within what the launch is for: a count that is wrong must not lead out of
/// the memory.
[[nodiscard]] constexpr std::int64_t clamped(std::int64_t count, std::int64_t most) {
  return count < 0 ? 0 : count > most ? most : count;
}

[[nodiscard]] constexpr std::int64_t existing_bags(BagLayout const& bags) {
  return bags.bag_count != nullptr ? clamped(*bags.bag_count, bags.bags) : bags.bags;
}

[[nodiscard]] constexpr PlaceRange places_of_bag(BagLayout const& bags, std::int64_t bag) {
  return bags.offsets != nullptr ? PlaceRange{clamped(bags.offsets[bag], bags.capacity),
                                              clamped(bags.offsets[bag + 1], bags.capacity)}
                                 : PlaceRange{bag * bags.hotness, (bag + 1) * bags.hotness};
}

/// The places of all bags that exist.
[[nodiscard]] constexpr PlaceRange existing_places(BagLayout const& bags) {
  auto const count = existing_bags(bags);
  return bags.offsets != nullptr ? PlaceRange{clamped(bags.offsets[0], bags.capacity),
                                              clamped(bags.offsets[count], bags.capacity)}
                                 : PlaceRange{0, count * bags.hotness};
}

/// The bag that holds a place of existing_places(); places are below 2^31, and a 32-bit division is
/// several times cheaper on a GPU.
[[nodiscard]] constexpr std::int64_t bag_of_place(BagLayout const& bags, std::int64_t place) {
  return bags.offsets != nullptr
             ? count_not_above(bags.offsets, existing_bags(bags) + 1, place) - 1
             : static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(bags.hotness);
}

[[nodiscard]] constexpr bool is_in_range(std::int64_t id, std::int64_t rows) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(rows);
}

/// What an output row's gradient is multiplied with on its way to the rows of a bag.
[[nodiscard]] constexpr float gradient_scale(BagLayout const& bags,
                                             Pooling pooling,
                                             std::int64_t const* ids,
                                             std::int64_t rows,
                                             std::int64_t bag) {
  if (pooling == Pooling::sum) {
    return 1.0F;
  }
  auto const places = places_of_bag(bags, bag);
  std::int64_t valid = 0;
  for (auto place = places.begin; place < places.end; ++place) {
    valid += is_in_range(ids[place], rows) ? 1 : 0;
  }
  return 1.0F / static_cast<float>(valid);
}

}  // namespace msstream::ops::kernels
