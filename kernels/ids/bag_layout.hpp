// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "ids/bag_offsets.hpp"
#include "ids/bag_view.hpp"

#include <msstream/base/dtype.hpp>

#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

/// Ids grouped into bags, like a BagView, but with ids of the known type Id.
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
  bool ascend = false;  ///< true if the offsets are known to ascend (BagOffsets::ascend)

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
    if (offsets == nullptr) {
      return {bag * hotness, (bag + 1) * hotness};
    }
    return bag_offsets().places_of(bag);
  }
  /// Returns whether an existing bag has invalid offsets and is therefore treated as empty.
  [[nodiscard]] constexpr bool is_bad(std::int64_t bag) const {
    return offsets != nullptr && bag_offsets().is_bad(bag);
  }
  /// Returns the offsets of the existing bags. Only for bags that have offsets.
  [[nodiscard]] constexpr BagOffsets<Id> bag_offsets() const {
    return {offsets, existing(), capacity, ascend};
  }
  /// Returns a range that contains the positions of all existing bags. If no bag has invalid
  /// offsets, the range contains no other positions.
  [[nodiscard]] constexpr PlaceRange existing_places() const {
    return offsets != nullptr ? bag_offsets().all_places() : PlaceRange{0, existing() * hotness};
  }
  /// Returns the bag that contains a position of existing_places(), or -1 if the bag has invalid
  /// offsets. A position p ≥ `capacity` means the default id of bag p - capacity. Positions are
  /// below 2^31, which allows a 32-bit division, several times cheaper on a GPU.
  [[nodiscard]] constexpr std::int64_t bag_of(std::int64_t place) const {
    if (place >= capacity) {
      return place - capacity;
    }
    return offsets != nullptr
               ? bag_offsets().bag_of(place)
               : static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(hotness);
  }
  /// Returns a copy of the bags with `ascend` set to whether all offsets ascend, which
  /// BagOffsets::looked_at() checks. Without offsets `ascend` is false.
  [[nodiscard]] IdBags looked_at() const {
    auto bags_looked_at = *this;
    bags_looked_at.ascend = offsets != nullptr && bag_offsets().looked_at().ascend;
    return bags_looked_at;
  }
  [[nodiscard]] constexpr float weight(std::int64_t place) const {
    return weights != nullptr && place < capacity ? weights[place] : 1.0F;
  }
};

/// Throws std::invalid_argument unless `dtype` is a type of ids: int32 or int64.
void require_id_type(char const* operation, DType dtype);

/// Calls function(IdBags<Id>(view)), where Id is the view's id type. Throws std::invalid_argument
/// unless the type is int32 or int64.
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
