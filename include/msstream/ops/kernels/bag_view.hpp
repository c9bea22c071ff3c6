// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>

namespace msstream::ops {

/// How the rows of one bag become one output row; w are the ids' weights, or 1.
///
/// sum: Σ w·row. mean: that over Σ w. sqrtn: that over sqrt(Σ w²). max: the largest element of each
/// column, without weights; NaN is larger than all. none: no bags, one output row an id, times w.
/// A bag without a valid id gives 0, unless it has a default id; so does one whose divisor is 0.
enum class Pooling : std::uint8_t { sum, mean, sqrtn, max, none };

namespace kernels {

/// Ids in bags. Fixed hotness: bag b has the places [b * hotness, (b + 1) * hotness) of `ids`.
/// Jagged (`offsets` not null, [bags + 1], ascending): it has [offsets[b], offsets[b + 1]), and
/// none where BagOffsets calls it bad. `bags` and `capacity` are what a launch is for; with
/// `bag_count` only the first *bag_count bags exist. A bag has fewer than 2^31 ids. All memory is
/// the device's.
struct BagView {
  void const* ids;                ///< [capacity] of `id_dtype`
  DType id_dtype = DType::int64;  ///< int32 or int64
  std::int64_t bags = 0;
  std::int64_t capacity = 0;      ///< of ids: bags * hotness, or the capacity of the jagged values
  std::int64_t hotness = 1;       ///< unused when offsets is set
  void const* offsets = nullptr;  ///< of `id_dtype`, or null
  /// Scalar ≤ bags, or null; output rows beyond it are set to 0.
  std::int64_t const* bag_count = nullptr;
  float const* weights = nullptr;  ///< [capacity], or null: all are 1
  /// What a bag without a valid id holds instead, with a weight of 1; below 0: nothing.
  std::int64_t default_id = -1;
};

}  // namespace kernels
}  // namespace msstream::ops
