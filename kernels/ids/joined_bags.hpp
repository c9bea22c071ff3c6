// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/id_array.hpp"
#include "common/id_report.hpp"
#include "ids/bag_offsets.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The bags of one table, which are joined with those of others.
struct JoinedPiece {
  IdArray ids;           ///< [capacity]
  IdArray offsets;       ///< [batch + 1]; null if each bag has `hotness` ids
  float const* weights;  ///< [capacity]; null if all are 1
  std::int64_t capacity;
  std::int64_t hotness;

  [[nodiscard]] constexpr bool has_offsets() const {
    return offsets.wide != nullptr || offsets.narrow != nullptr;
  }
  [[nodiscard]] constexpr bool is_bad(std::int64_t bag, std::int64_t batch) const {
    return offsets.wide != nullptr
               ? BagOffsets<std::int64_t>{offsets.wide, batch, capacity}.is_bad(bag)
           : offsets.narrow != nullptr
               ? BagOffsets<std::int32_t>{offsets.narrow, batch, capacity}.is_bad(bag)
               : false;
  }
  /// Returns the first place of a bag that has ids.
  [[nodiscard]] constexpr std::int64_t begin_of(std::int64_t bag) const {
    return has_offsets() ? offsets.at(bag) : bag * hotness;
  }
  /// Returns the number of ids of a bag that is not bad.
  [[nodiscard]] constexpr std::int64_t length_of(std::int64_t bag) const {
    return has_offsets() ? offsets.at(bag + 1) - offsets.at(bag) : hotness;
  }
};

inline constexpr int kMostJoinedPieces = 48;

/// Up to kMostJoinedPieces tables of `batch` bags each, of which only the first *count exist. Bag b
/// of piece p is bag p * batch + b of the result.
struct JoinedBagsArgs {
  int pieces;
  JoinedPiece at[kMostJoinedPieces];
  std::int64_t batch;
  std::int64_t const* count;  ///< device scalar, or null if all bags exist
  std::int64_t first_bag;  ///< the number of the first bag among those of all tables, for reports
  IdReport report;         ///< where bags with invalid offsets are reported
};
static_assert(sizeof(JoinedBagsArgs) <= 4000, "the parameters of a kernel");

/// Computes the number of ids of each bag, [pieces * batch]: 0 if the bag does not exist or has
/// invalid offsets.
void joined_lengths(HostStream stream, JoinedBagsArgs const& args, std::int64_t* lengths);
void joined_lengths(CudaStream stream, JoinedBagsArgs const& args, std::int64_t* lengths);

/// Places of the joined bags that joined_ids() fills.
struct JoinedPlaces {
  std::int64_t const* offsets;  ///< [pieces * batch + 1], the sums of the joined lengths
  std::int64_t* ids;
  float* weights;  ///< null if no piece has weights
};
/// Copies the ids and weights of each bag to the bag's places.
void joined_ids(HostStream stream, JoinedBagsArgs const& args, JoinedPlaces const& places);
void joined_ids(CudaStream stream, JoinedBagsArgs const& args, JoinedPlaces const& places);

}  // namespace msstream::ops::kernels
