// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Ids grouped into bags; all pointers are to device memory. With fixed hotness, bag b has the ids
/// at [b * hotness, (b + 1) * hotness). If `offsets` is not null, [bags + 1], ascending, bag b has
/// the ids at [offsets[b], offsets[b + 1]), or none if the offsets are invalid
/// (BagOffsets::is_bad). A launch covers `bags` bags and `capacity` ids; if `bag_count` is not
/// null, only the first *bag_count bags exist. A bag has fewer than 2^31 ids.
struct BagView {
  void const* ids;                ///< [capacity] of `id_dtype`
  DType id_dtype = DType::int64;  ///< int32 or int64
  std::int64_t bags = 0;
  std::int64_t capacity = 0;      ///< number of ids: bags * hotness, or the capacity of jagged ids
  std::int64_t hotness = 1;       ///< ids per bag; unused if `offsets` is not null
  void const* offsets = nullptr;  ///< [bags + 1] of `id_dtype`, or null
  /// The number of bags that exist, a device scalar ≤ bags, or null if all `bags` exist. Output
  /// rows of bags that do not exist are set to 0.
  std::int64_t const* bag_count = nullptr;
  float const* weights = nullptr;  ///< [capacity], or null if all weights are 1
  /// The id that is used, with a weight of 1, for a bag that has no valid id. If negative, there is
  /// no default id.
  std::int64_t default_id = -1;
};

}  // namespace msstream::ops::kernels
