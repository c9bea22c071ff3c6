// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/id_report.cuh"
#include "common/row_vector.cuh"
#include "embedding/lookup.hpp"
#include "ids/bag_layout.hpp"
#include "ids/bag_offsets.cuh"

#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

/// The range of positions of ids that a group of lanes processes.
struct GroupPlaces {
  std::int64_t begin;
  int count;
  int skipped = 0;  ///< the number of leading positions that are in no bag

  [[nodiscard]] __device__ bool has(int k) const { return k < count && k >= skipped; }
};

/// Returns a bag's number of positions in 32 bits, because registers limit the number of rows in
/// flight. The result is limited so that a step of 32 beyond it does not overflow.
__device__ inline int place_count(std::int64_t places) {
  return static_cast<int>(clamped(places, std::numeric_limits<std::int32_t>::max() - 32));
}

/// Returns the positions of a bag's ids, none if the bag does not exist. If nothing is pooled, each
/// position is a bag of its own.
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
  return {places.begin, place_count(places.end - places.begin)};
}

/// Returns the positions of a bag's ids, computed by a group of lanes, which checks the bag's
/// offsets unless all bags of the warp are known to be `good`. Invalid offsets are reported if
/// `reports` is true. All lanes of a warp must call places_of_bag() together.
template <class Id>
__device__ GroupPlaces places_of_bag(LookupArgs const& args,
                                     IdBags<Id> const& bags,
                                     std::int64_t bag,
                                     RowLanes const& shape,
                                     bool good,
                                     bool reports) {
  if (args.pooling == Pooling::none || bags.offsets == nullptr) {
    return places_of_bag(bags, args.pooling != Pooling::none, bag);
  }
  auto const offsets = bags.bag_offsets();
  if (good) {
    bool const exists = bag < offsets.bags;
    auto const begin = exists ? offsets.at[bag] : Id{0};
    return {begin, exists ? place_count(offsets.at[bag + 1] - begin) : 0};
  }
  auto const places = places_by_lanes(
      offsets, bag, bag < offsets.bags, shape.lane(), shape.lanes(), args.report, reports);
  return {places.begin, place_count(places.end - places.begin)};
}

/// Returns the positions of the ids of `Bags` bags from `first` on. has_one_place_each() must have
/// returned true for these bags.
template <int Bags, class Id>
__device__ GroupPlaces places_of_bags(IdBags<Id> const& bags, bool pools, std::int64_t first) {
  if (!pools) {
    auto const all = bags.existing_places();
    return {first,
            static_cast<int>(clamped(all.end - first, Bags)),
            static_cast<int>(clamped(all.begin - first, Bags))};
  }
  if (bags.offsets == nullptr) {
    return {first, static_cast<int>(clamped(bags.existing() - first, Bags))};
  }
  return {bags.offsets[first], Bags};  // has_one_place_each() has checked the offsets
}

/// Returns true only if all bags of the groups of a warp, `Bags` per group from `first` on, have
/// valid offsets. The lanes of a group check its bags together.
template <int Bags, class Id>
__device__ bool all_look_good(IdBags<Id> const& bags,
                              bool pools,
                              std::int64_t first,
                              RowLanes const& shape) {
  if (!pools || bags.offsets == nullptr) {
    return true;
  }
  auto const offsets = bags.bag_offsets();
  auto const last = min(first + Bags, offsets.bags) - 1;
  bool const looks = first > last || looks_good(offsets, first, last, shape.lane(), shape.lanes());
  return __all_sync(0xFFFFFFFFU, looks) != 0;
}

/// Returns whether all bags of the groups of a warp, `Bags` per group from `first` on, have one
/// position each. Jagged bags must be known to be `good`, that is, to have valid offsets; each lane
/// checks one bag of its group.
template <int Bags, class Id>
__device__ bool has_one_place_each(
    IdBags<Id> const& bags, bool pools, std::int64_t first, RowLanes const& shape, bool good) {
  if (!pools || bags.offsets == nullptr) {
    return !pools || bags.hotness == 1;
  }
  if (!good || shape.lanes() < Bags) {
    return false;
  }
  auto const bag = first + min(shape.lane(), Bags - 1);
  bool const has_one = bag < bags.existing() && bags.offsets[bag + 1] - bags.offsets[bag] == 1;
  return __all_sync(0xFFFFFFFFU, has_one) != 0;
}

/// The row number that means "no row".
template <class Row>
inline constexpr Row kNoRow = static_cast<Row>(-1);

/// A source of ids for a group of lanes: the lanes read ids side by side, one position per lane,
/// and exchange them. For groups of at least `InFlight` lanes and tables of fewer than 2^32 - 1
/// rows.
template <class Id, int InFlight, bool kWeighted>
class SharedIds {
 public:
  using Row = std::uint32_t;
  static constexpr bool kRequestsAhead = true;

  __device__ explicit SharedIds(RowLanes const& shape)
      : lanes_(shape.lanes()), lane_(shape.lane()) {}

  /// Returns how many positions of ids are read at a time.
  [[nodiscard]] __device__ int places() const { return lanes_; }
  /// Requests the ids of the group's positions from number `next` on. May be called before the rows
  /// of the ids received last have been used.
  __device__ void request(IdBags<Id> const& bags, GroupPlaces const& places, int next) {
    auto const place = places.begin + next + lane_;
    requested_ = places.has(next + lane_);
    if (requested_) {
      id_ = __ldg(bags.ids + place);
      if constexpr (kWeighted) {
        requested_weight_ = __ldg(bags.weights + place);
      }
    }
  }
  /// Waits for the requested ids. Returns whether all ids that the warp requested are rows of the
  /// table. All lanes of the warp must call receive() together.
  __device__ bool receive(LookupArgs const& args, bool reports, OutOfRangeCount& bad) {
    bool const is_valid = requested_ && is_in_range(id_, args.rows);
    bool const is_bad = requested_ && !is_valid;
    row_ = is_valid ? static_cast<Row>(id_) : kNoRow<Row>;
    weight_ = requested_weight_;
    if (is_bad && reports) {
      bad.add(args, id_);
    }
    return __any_sync(0xFFFFFFFFU, is_bad) == 0;
  }
  /// Returns the row number of received id number `first` + k, or kNoRow. `first` is a multiple of
  /// InFlight. All lanes of the warp must call row() together.
  [[nodiscard]] __device__ Row row(int first, int k) const {
    return __shfl_sync(0xFFFFFFFFU, row_, first + k, lanes_);
  }
  /// Returns the weight of received id number `first` + k, if the id is a row of the table. All
  /// lanes of the warp must call weight() together.
  [[nodiscard]] __device__ float weight(int first, int k) const {
    return kWeighted ? __shfl_sync(0xFFFFFFFFU, weight_, first + k, lanes_) : 1.0F;
  }

 private:
  int lanes_;
  int lane_;
  bool requested_ = false;
  Id id_ = 0;
  float requested_weight_ = 1.0F;
  Row row_ = kNoRow<Row>;
  float weight_ = 1.0F;
};

/// A source of ids for a group of lanes, in which each lane reads all ids itself. For groups of few
/// lanes, and tables of any size.
template <class Id, int InFlight, bool kWeighted>
class OwnIds {
 public:
  using Row = std::int64_t;
  static constexpr bool kRequestsAhead = false;

  __device__ explicit OwnIds(RowLanes const& shape) : is_first_lane_(shape.lane() == 0) {}

  [[nodiscard]] __device__ int places() const { return InFlight; }
  __device__ void request(IdBags<Id> const& bags, GroupPlaces const& places, int next) {
    requested_ = 0;
    auto const place = places.begin + next;
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      bool const has = places.has(next + k);
      requested_ |= has ? 1U << k : 0U;
      ids_[k] = has ? __ldg(bags.ids + place + k) : -1;
      if constexpr (kWeighted) {
        weights_[k] = has ? __ldg(bags.weights + place + k) : 1.0F;
      }
    }
  }
  __device__ bool receive(LookupArgs const& args, bool reports, OutOfRangeCount& bad) {
    bool is_whole = true;
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      bool const is_valid = is_in_range(ids_[k], args.rows);
      if (!is_valid) {
        bool const was_requested = (requested_ >> k & 1U) != 0;
        if (was_requested && is_first_lane_ && reports) {
          bad.add(args, ids_[k]);
        }
        ids_[k] = -1;
        is_whole = is_whole && !was_requested;
      }
    }
    return __all_sync(0xFFFFFFFFU, is_whole) != 0;
  }
  [[nodiscard]] __device__ Row row(int, int k) const {
    return ids_[k];
  }
  [[nodiscard]] __device__ float weight(int, int k) const {
    return kWeighted ? weights_[k] : 1.0F;
  }

 private:
  bool is_first_lane_;
  unsigned requested_ = 0;
  Id ids_[InFlight];
  float weights_[InFlight];
};

}  // namespace msstream::ops::kernels
