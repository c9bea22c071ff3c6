// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/row_vector.cuh"
#include "embedding/lookup.hpp"
#include "embedding/tuning.hpp"
#include "ids/bag_layout.hpp"
#include "ids/bag_offsets.cuh"

#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

/// The division of a block into groups of lanes, and of bags among them.
struct BagLanes : RowLanes {
  int slices;  ///< groups that share a bag
  int groups_a_block;
  int runs_a_block;  ///< groups_a_block / slices
  int bags_of_run;   ///< bags that a group takes one after the other

  BagLanes(std::int64_t row_width, int columns_a_lane, BagShare share, int threads, int bags)
      : RowLanes(row_width, columns_a_lane),
        slices(share.slices),
        groups_a_block(threads >> share.log2_lanes),
        runs_a_block(groups_a_block / share.slices),
        bags_of_run(bags) {
    log2_lanes = share.log2_lanes;
  }
};

/// The range of positions of ids that a group of lanes processes.
struct GroupPlaces {
  std::int64_t begin;
  int count;
  int skipped = 0;  ///< the number of leading positions that are in no bag

  [[nodiscard]] __device__ bool has(int k) const { return k < count && k >= skipped; }
};

/// Returns a bag's number of positions in 32 bits, because registers limit the number of rows in
/// flight. The result is limited so that a step beyond it does not overflow.
__device__ inline int place_count(std::int64_t places) {
  return static_cast<int>(clamped(places, std::numeric_limits<std::int32_t>::max() - 128));
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

/// Returns the positions of the ids of a bag of fixed hotness, or those of another existing bag if
/// there is no such bag, so that all groups have as many ids.
template <class Id>
__device__ GroupPlaces places_of_equal_bag(IdBags<Id> const& bags, std::int64_t bag) {
  auto const last = max(bags.existing() - 1, std::int64_t{0});
  return {min(bag, last) * bags.hotness, place_count(bags.hotness)};
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

/// Reports the ids that are no rows of the table among those of the calling lane: the first `run`
/// of each `step` ids, of `count` ids. Reads the ids again, and is not inlined, so that the rare
/// case costs the caller no registers. All lanes of a warp must call report_bad_ids() together.
template <class Id>
__device__ __noinline__ void report_bad_ids(
    IdReport report, std::int64_t rows, Id const* ids, int count, int run, int step) {
  OutOfRangeIds bad;
  for (int first = 0; first < count; first += step) {
    for (int k = first; k < min(first + run, count); ++k) {
      if (std::int64_t const id = ids[k]; !is_in_range(id, rows)) {
        bad.add(id);
      }
    }
  }
  report_out_of_range(report, bad, rows);
}

/// The row number that means "no row".
template <class Row>
inline constexpr Row kNoRow = static_cast<Row>(-1);

/// A source of ids for a group of lanes: the lanes read ids side by side, Tuning::kIdsALane
/// neighbouring positions per lane, and exchange them. For groups that read at least
/// Tuning::kRowsInFlight ids at a time and tables of fewer than 2^32 - 1 rows.
template <class Id, class Tuning, bool kWeighted>
class SharedIds {
 public:
  using Row = std::uint32_t;
  static constexpr bool kRequestsAhead = true;
  static constexpr int kIds = Tuning::kIdsALane;
  static_assert(Tuning::kRowsInFlight % kIds == 0, "a step begins with the first id of a lane");

  /// Constructs a source of the ids at the positions of the calling lane's group.
  __device__ SharedIds(IdBags<Id> const& bags, GroupPlaces const& places, RowLanes const& shape)
      : lanes_(shape.lanes()),
        ids_from_(bags.ids + places.begin + own(shape)),
        left_(places.count - own(shape)),
        skipped_(places.skipped - own(shape)) {
    if constexpr (kWeighted) {
      weights_from_ = bags.weights + places.begin + own(shape);
    }
  }

  /// Returns how many positions of ids are read at a time. Whole parts of bags consist of so many.
  [[nodiscard]] __device__ int places() const {
    return kIds > 2 ? min(lanes_ * kIds, static_cast<int>(kRowsOfPart)) : lanes_ * kIds;
  }
  /// Requests the ids of the group's positions from number `next` on. May be called before the rows
  /// of the ids received last have been used.
  __device__ void request(int next) {
    requested_ = 0;
#pragma unroll
    for (int i = 0; i < kIds; ++i) {
      if (next + i < left_ && next + i >= skipped_) {
        requested_ |= 1U << i;
        ids_[i] = __ldg(ids_from_ + next + i);
        if constexpr (kWeighted) {
          requested_weights_[i] = __ldg(weights_from_ + next + i);
        }
      }
    }
  }
  /// Waits for the requested ids. Returns whether all ids that the warp requested are rows of the
  /// table. All lanes of the warp must call receive() together.
  __device__ bool receive(std::int64_t rows) {
    bool has_bad = false;
#pragma unroll
    for (int i = 0; i < kIds; ++i) {
      bool const was_requested = (requested_ >> i & 1U) != 0;
      bool const is_valid = was_requested && is_in_range(ids_[i], rows);
      rows_[i] = is_valid ? static_cast<Row>(ids_[i]) : kNoRow<Row>;
      if constexpr (kWeighted) {
        weights_[i] = requested_weights_[i];
      }
      has_bad = has_bad || (was_requested && !is_valid);
    }
    return __any_sync(kAllLanes, has_bad) == 0;
  }
  /// Returns the row number of received id number `first` + k, or kNoRow. `first` is a multiple of
  /// Tuning::kRowsInFlight. All lanes of the warp must call row() together.
  [[nodiscard]] __device__ Row row(int first, int k) const {
    return __shfl_sync(kAllLanes, rows_[k % kIds], first / kIds + k / kIds, lanes_);
  }
  /// Returns the row number of received id number `number`, or kNoRow; `number` is the same in all
  /// groups. All lanes of the warp must call row_at() together.
  [[nodiscard]] __device__ Row row_at(int number) const {
    Row row = rows_[0];
#pragma unroll
    for (int i = 1; i < kIds; ++i) {
      row = number % kIds == i ? rows_[i] : row;
    }
    return __shfl_sync(kAllLanes, row, number / kIds, lanes_);
  }
  /// Returns the weight of received id number `first` + k, if the id is a row of the table. All
  /// lanes of the warp must call weight() together.
  [[nodiscard]] __device__ float weight(int first, int k) const {
    return kWeighted ? __shfl_sync(kAllLanes, weights_[k % kIds], first / kIds + k / kIds, lanes_)
                     : 1.0F;
  }

  /// Reports the ids of the group that are no rows, if `reports` is true for the group. All lanes
  /// of the warp must call report() together.
  __device__ void report(IdReport const& report,
                         std::int64_t rows,
                         RowLanes const& shape,
                         bool reports) const {
    bool const has_ids = reports && skipped_ <= 0 && own(shape) < places();
    report_bad_ids(report, rows, ids_from_, has_ids ? left_ : 0, kIds, places());
  }

 private:
  [[nodiscard]] static __device__ int own(RowLanes const& shape) {
    return shape.lane() * kIds;
  }

  int lanes_;
  Id const* ids_from_;  ///< the first of the lane's ids
  float const* weights_from_ = nullptr;
  int left_;     ///< the group's ids from the lane's first on
  int skipped_;  ///< of these, the ones that are in no bag
  unsigned requested_ = 0;
  Id ids_[kIds] = {};
  float requested_weights_[kIds];
  Row rows_[kIds];
  float weights_[kIds];
};

/// A source of ids for a group of lanes, in which each lane reads all ids itself. For groups of few
/// lanes, and tables of any size.
template <class Id, class Tuning, bool kWeighted>
class OwnIds {
  static constexpr int kInFlight = Tuning::kRowsInFlight;

 public:
  using Row = std::int64_t;
  static constexpr bool kRequestsAhead = false;

  __device__ OwnIds(IdBags<Id> const& bags, GroupPlaces const& places, RowLanes const& shape)
      : ids_from_(bags.ids + places.begin),
        weights_from_(bags.weights + places.begin),
        places_(places),
        is_first_lane_(shape.lane() == 0) {}

  [[nodiscard]] __device__ int places() const { return kInFlight; }
  __device__ void request(int next) {
    requested_ = 0;
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      bool const has = places_.has(next + k);
      requested_ |= has ? 1U << k : 0U;
      ids_[k] = has ? __ldg(ids_from_ + next + k) : -1;
      if constexpr (kWeighted) {
        weights_[k] = has ? __ldg(weights_from_ + next + k) : 1.0F;
      }
    }
  }
  __device__ bool receive(std::int64_t rows) {
    bool is_whole = true;
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (!is_in_range(ids_[k], rows)) {
        ids_[k] = -1;
        is_whole = is_whole && (requested_ >> k & 1U) == 0;
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

  __device__ void report(IdReport const& report,
                         std::int64_t rows,
                         RowLanes const&,
                         bool reports) const {
    int const first = max(places_.skipped, 0);
    int const count = reports && is_first_lane_ ? places_.count - first : 0;
    report_bad_ids(report, rows, ids_from_ + first, count, count, count);
  }

 private:
  Id const* ids_from_;
  float const* weights_from_;
  GroupPlaces places_;
  bool is_first_lane_;
  unsigned requested_ = 0;
  Id ids_[kInFlight];
  float weights_[kInFlight];
};

}  // namespace msstream::ops::kernels
