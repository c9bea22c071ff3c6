// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "embedding_gradient/grouped_ranges.cuh"
#include "embedding_gradient/place_source.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The positions whose rows are added up, sorted by rank (the number of the sum), so that equal
/// ranks are neighbours.
struct GroupedPlaces {
  /// The number of the sum that each entry adds to, [capacity]; ascending, then -1.
  std::int32_t const* ranks;
  std::int32_t const* positions;  ///< [capacity]: the position of each entry
  std::int32_t const* starts;     ///< the first entry of each rank
  std::int64_t capacity;
};

/// The division of sorted positions into equal parts, enough of them to fill a large GPU: narrow
/// rows, of which few lanes share each, have more parts. Depends on the capacity and the width
/// alone.
struct PartsOfPlaces {
  std::int64_t places;
  std::int64_t parts;
  std::int64_t a_block;  ///< parts per block

  PartsOfPlaces(std::int64_t capacity, std::int64_t width)
      : places(std::clamp<std::int64_t>(
            ceil_div(capacity, parts_of(RowLanes(width, 4)) * kStep) * kStep, kStep, 256)),
        parts(ceil_div(capacity, places)),
        a_block(kGroupedThreads / RowLanes(width, 4).lanes()) {}

 private:
  static std::int64_t parts_of(RowLanes const& shape) {
    return std::max(kParts, kLanes / shape.lanes());
  }

  static constexpr std::int64_t kParts = 16'384;
  /// The fewest lanes that share many positions: about as many as a large GPU holds at once.
  static constexpr std::int64_t kLanes = std::int64_t{1} << 17;
  static constexpr std::int64_t kStep = 16;  ///< a multiple of the rows that a sink has in flight
};

/// One of the parts into which sorted positions are divided, with the information whether the
/// part's first row began in an earlier part. There are fewer than 2^31 positions.
struct PartOfPlaces {
  std::uint32_t part;
  std::uint32_t begin;
  std::uint32_t end;
  bool has_head;

  __device__ PartOfPlaces(GroupedPlaces const& places,
                          PartsOfPlaces const& parts,
                          std::int64_t number)
      : part(static_cast<std::uint32_t>(number)),
        begin(static_cast<std::uint32_t>(min(number * parts.places, places.capacity))),
        end(static_cast<std::uint32_t>(min((number + 1) * parts.places, places.capacity))),
        has_head(begin > 0 && begin < end && goes_on(places, begin)) {}

  /// Returns whether a row has positions on both sides of a border between parts.
  static __device__ bool goes_on(GroupedPlaces const& places, std::uint32_t border) {
    return places.ranks[border] >= 0 && places.ranks[border - 1] == places.ranks[border];
  }
};

/// The data of a position that must be known before the position's row is requested.
struct alignas(16) StagedPlace {
  std::int32_t row;     ///< the row to add; -1 if nothing is added
  std::int32_t detail;  ///< for a maximum the position itself, otherwise the bits of its factor
  std::int64_t target;  ///< target of the sum that ends here; -1 if none ends

  /// Reads the target from shared memory when it is needed, because keeping the targets of all rows
  /// in flight would take too many registers.
  __device__ std::int64_t target_again() const {
    return *const_cast<std::int64_t const volatile*>(&target);
  }
};

/// The next positions that a group of lanes processes, in shared memory. The lanes look up the
/// positions together, one each, so that they wait only once for all of them.
struct StagedPlaces {
  std::uint32_t count;  ///< a multiple of the number of rows that sinks have in flight
  StagedPlace* places;

  /// Returns the number of positions that a group of lanes looks up at once: at least one per lane,
  /// and few enough that the many groups of narrow rows fit in a block's shared memory.
  static __host__ __device__ int count_of(RowLanes const& shape) {
    constexpr int kLeast = 8;
    return shape.lanes() > kLeast ? shape.lanes() : kLeast;
  }
  static std::size_t bytes_a_block(RowLanes const& shape) {
    return static_cast<std::size_t>(kGroupedThreads / shape.lanes() * count_of(shape)) *
           sizeof(StagedPlace);
  }
  __device__ explicit StagedPlaces(RowLanes const& shape)
      : count(static_cast<std::uint32_t>(count_of(shape))), places(memory()) {
    places += (threadIdx.x >> shape.log2_lanes) * count;
  }

 private:
  static __device__ StagedPlace* memory() {
    extern __shared__ StagedPlace of_block[];
    return of_block;
  }
};

/// Looks up one sorted position: the row to add, its factor, and the target of the sum that ends
/// with the position.
template <class Rows, class Sink>
__device__ StagedPlace stage_place(GroupedPlaces const& places,
                                   PlaceSource const& source,
                                   Sink const& sink,
                                   std::uint32_t at) {
  auto const rank = __ldg(places.ranks + at);
  auto const place = __ldg(places.positions + at);
  auto const behind = at + 1;
  auto const rank_behind = behind < places.capacity ? __ldg(places.ranks + behind) : -1;
  StagedPlace staged{-1, 0, -1};
  if (rank < 0) {
    return staged;
  }
  if (rank != rank_behind) {
    staged.target = sink.target_of(rank);
  }
  staged.row = source.row_of(place);
  if constexpr (Rows::kIsMax) {
    staged.detail = place;
  } else {
    // A position that adds nothing has the factor 0, whatever source.factor_of() returns.
    staged.detail = __float_as_int(staged.row >= 0 ? source.factor_of(place) : 0.0F);
  }
  return staged;
}

}  // namespace msstream::ops::kernels
