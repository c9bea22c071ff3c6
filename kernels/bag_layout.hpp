// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hash_functions.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/bag_view.hpp>

#include <cmath>
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

[[nodiscard]] constexpr bool is_in_range(std::int64_t id, std::int64_t rows) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(rows);
}

/// A BagView whose ids are of type Id.
template <class Id>
struct IdBags {
  Id const* ids;
  Id const* offsets;
  std::int64_t const* bag_count;
  float const* weights;
  std::int64_t bags;
  std::int64_t capacity;
  std::int64_t hotness;
  std::int64_t default_id;

  explicit IdBags(BagView const& view)
      : ids(static_cast<Id const*>(view.ids)),
        offsets(static_cast<Id const*>(view.offsets)),
        bag_count(view.bag_count),
        weights(view.weights),
        bags(view.bags),
        capacity(view.capacity),
        hotness(view.hotness),
        default_id(view.default_id) {}

  [[nodiscard]] constexpr std::int64_t existing() const {
    return bag_count != nullptr ? clamped(*bag_count, bags) : bags;
  }
  [[nodiscard]] constexpr PlaceRange places_of(std::int64_t bag) const {
    return offsets != nullptr
               ? PlaceRange{clamped(offsets[bag], capacity), clamped(offsets[bag + 1], capacity)}
               : PlaceRange{bag * hotness, (bag + 1) * hotness};
  }
  /// The places of all bags that exist.
  [[nodiscard]] constexpr PlaceRange existing_places() const {
    auto const count = existing();
    return offsets != nullptr
               ? PlaceRange{clamped(offsets[0], capacity), clamped(offsets[count], capacity)}
               : PlaceRange{0, count * hotness};
  }
  /// The bag that holds a place of existing_places(), or whose default id the place stands for;
  /// places are below 2^31, and a 32-bit division is several times cheaper on a GPU.
  [[nodiscard]] constexpr std::int64_t bag_of(std::int64_t place) const {
    if (place >= capacity) {
      return place - capacity;
    }
    return offsets != nullptr
               ? count_not_above(offsets, existing() + 1, static_cast<Id>(place)) - 1
               : static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(hotness);
  }
  [[nodiscard]] constexpr float weight(std::int64_t place) const {
    return weights != nullptr && place < capacity ? weights[place] : 1.0F;
  }
};

/// Throws std::invalid_argument for a type that no ids are of.
inline void require_id_type(char const* operation, DType dtype) {
  require(dtype == DType::int32 || dtype == DType::int64,
          operation,
          ": ids of ",
          name_of(dtype),
          "; expected int32 or int64");
}

/// Calls function(IdBags<std::int32_t or std::int64_t>), as require_id_type() allows.
template <class Function>
void with_id_type(char const* operation, BagView const& view, Function const& function) {
  require_id_type(operation, view.id_dtype);
  if (view.id_dtype == DType::int32) {
    function(IdBags<std::int32_t>(view));
  } else {
    function(IdBags<std::int64_t>(view));
  }
}

}  // namespace msstream::ops::kernels
