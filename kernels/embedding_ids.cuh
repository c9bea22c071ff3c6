// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "id_report.cuh"
#include "row_vector.cuh"

#include <msstream/ops/kernels/embedding.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Neighbouring places of ids that a group of lanes goes through.
struct GroupPlaces {
  std::int64_t begin;
  std::int64_t count;
  std::int64_t skipped = 0;  ///< as many of the first ones are in no bag

  [[nodiscard]] __device__ bool has(std::int64_t k) const { return k < count && k >= skipped; }
};

/// The places of a bag, none where it does not exist. Where nothing is pooled each place is a bag.
template <class Id>
__device__ GroupPlaces places_of_bag(IdBags<Id> const& bags, bool pools, std::int64_t bag) {
  if (!pools) {
    auto const all = bags.existing_places();
    return {bag, bag >= all.begin && bag < all.end ? 1 : 0};
  }
  if (bag >= bags.existing()) {
    return {0, 0};
  }
  auto const places = bags.places_of(bag);
  return {places.begin, places.end - places.begin};
}

/// The places of `Bags` bags from `first` on, where has_one_place_each() says so.
template <int Bags, class Id>
__device__ GroupPlaces places_of_bags(IdBags<Id> const& bags, bool pools, std::int64_t first) {
  if (!pools) {
    auto const all = bags.existing_places();
    return {first, clamped(all.end - first, Bags), all.begin - first};
  }
  if (bags.offsets == nullptr) {
    return {first, clamped(bags.existing() - first, Bags)};
  }
  return {bags.places_of(first).begin, Bags};
}

/// Whether that holds for all walks of a warp; a lane looks at one of its group's bags.
template <int Bags, class Id>
__device__ bool has_one_place_each(IdBags<Id> const& bags,
                                   bool pools,
                                   std::int64_t first,
                                   RowLanes const& shape) {
  if (!pools || bags.offsets == nullptr) {
    return !pools || bags.hotness == 1;
  }
  if (shape.lanes() < Bags) {
    return false;
  }
  auto const bag = first + min(shape.lane(), Bags - 1);
  return __all_sync(0xFFFFFFFFU, places_of_bag(bags, pools, bag).count == 1) != 0;
}

/// The larger or smaller of what the groups of a warp have; all lanes of the warp together.
template <class Choose>
__device__ std::int64_t chosen_of_groups(std::int64_t value,
                                         RowLanes const& shape,
                                         Choose const& choose) {
  for (int distance = 16; distance >= shape.lanes(); distance /= 2) {
    value = choose(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

/// What a lookup reads of a place: its row, or kNone, and the id's weight.
template <class RowNumber>
struct PlaceRow {
  static constexpr RowNumber kNone = static_cast<RowNumber>(-1);

  RowNumber row = kNone;
  float weight = 0.0F;

  [[nodiscard]] __device__ bool is_valid() const { return row != kNone; }
};

/// Ids that the lanes of a group read side by side, a place each, and tell each other: for groups
/// of at least `InFlight` lanes, and tables of fewer than 2^32 - 1 rows.
template <class Id, int InFlight, bool kWeighted>
class SharedIds {
 public:
  using Row = PlaceRow<std::uint32_t>;
  static constexpr bool kRequestsAhead = true;

  __device__ explicit SharedIds(RowLanes const& shape)
      : lanes_(shape.lanes()), lane_(shape.lane()) {}

  /// How many places are read at a time.
  [[nodiscard]] __device__ int places() const { return lanes_; }
  /// Requests the group's places from the `next`-th on, also before what came last is used up.
  __device__ void request(IdBags<Id> const& bags, GroupPlaces const& places, std::int64_t next) {
    auto const place = places.begin + next + lane_;
    requested_ = places.has(next + lane_);
    if (requested_) {
      id_ = __ldg(bags.ids + place);
      if constexpr (kWeighted) {
        weight_ = __ldg(bags.weights + place);
      }
    }
  }
  /// Waits for what was requested; all lanes of the warp together. Whether all of it are rows, for
  /// all of the warp.
  __device__ bool receive(std::int64_t rows, OutOfRangeIds* bad) {
    bool const is_valid = requested_ && is_in_range(id_, rows);
    bool const is_bad = requested_ && !is_valid;
    mine_.row = is_valid ? static_cast<std::uint32_t>(id_) : Row::kNone;
    mine_.weight = is_valid ? weight_ : 0.0F;
    if (is_bad && bad != nullptr) {
      bad->add(id_);
    }
    return __any_sync(0xFFFFFFFFU, is_bad) == 0;
  }
  /// What is at the k-th place received; all lanes of the warp together.
  [[nodiscard]] __device__ Row at(int k) const {
    Row row;
    row.row = __shfl_sync(0xFFFFFFFFU, mine_.row, k, lanes_);
    if constexpr (kWeighted) {
      row.weight = __shfl_sync(0xFFFFFFFFU, mine_.weight, k, lanes_);
    }
    return row;
  }

 private:
  int lanes_;
  int lane_;
  bool requested_ = false;
  Id id_ = 0;
  float weight_ = 1.0F;
  Row mine_;
};

/// Ids that each lane reads for itself: for groups of few lanes, and tables of any size.
template <class Id, int InFlight, bool kWeighted>
class OwnIds {
 public:
  using Row = PlaceRow<std::int64_t>;
  static constexpr bool kRequestsAhead = false;

  __device__ explicit OwnIds(RowLanes const& shape) : is_first_lane_(shape.lane() == 0) {}

  [[nodiscard]] __device__ int places() const { return InFlight; }
  __device__ void request(IdBags<Id> const& bags, GroupPlaces const& places, std::int64_t next) {
    requested_ = 0;
    auto const place = places.begin + next;
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      bool const has = places.has(next + k);
      requested_ |= has ? 1U << k : 0U;
      ids_[k] = has ? __ldg(bags.ids + place + k) : -1;
      if constexpr (kWeighted) {
        weights_[k] = has ? __ldg(bags.weights + place + k) : 0.0F;
      }
    }
  }
  __device__ bool receive(std::int64_t rows, OutOfRangeIds* bad) {
    bool is_whole = true;
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      bool const is_valid = is_in_range(ids_[k], rows);
      if (!is_valid) {
        bool const was_requested = (requested_ >> k & 1U) != 0;
        if (was_requested && is_first_lane_ && bad != nullptr) {
          bad->add(ids_[k]);
        }
        ids_[k] = -1;
        weights_[k] = 0.0F;
        is_whole = is_whole && !was_requested;
      }
    }
    return __all_sync(0xFFFFFFFFU, is_whole) != 0;
  }
  [[nodiscard]] __device__ Row at(int k) const {
    return {ids_[k], weights_[k]};
  }

 private:
  bool is_first_lane_;
  unsigned requested_ = 0;
  Id ids_[InFlight];
  float weights_[InFlight] = {};
};

}  // namespace msstream::ops::kernels
