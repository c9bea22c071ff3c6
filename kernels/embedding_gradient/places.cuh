// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/workspace_layout.hpp"
#include "embedding/pooling_divisor.hpp"
#include "embedding_gradient/gradients.hpp"
#include "embedding_gradient/place_source.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns whether there are so few positions that one launch, with a warp per row, can sum them.
inline bool has_few_places(BagView const& bags) {
  constexpr std::int64_t kFewPlaces = 2048;
  return place_capacity(bags) <= kFewPlaces;
}

/// Returns whether the pooling may divide a bag's sum by a number other than 1.
inline bool has_divisors(BagView const& bags, Pooling pooling) {
  bool const one_id_a_bag = bags.offsets == nullptr && bags.hotness == 1;
  return divides(pooling) && (bags.weights != nullptr || !one_id_a_bag);
}
inline bool has_factors(BagView const& bags, Pooling pooling) {
  return has_divisors(bags, pooling) || (bags.weights != nullptr && pooling != Pooling::max);
}
/// Returns whether the bags and factors of all positions are written to memory before they are
/// used, instead of computed when used.
inline bool lists_places(BagView const& bags, Pooling pooling) {
  return has_factors(bags, pooling) || (bags.offsets != nullptr && pooling != Pooling::none);
}

/// The workspace for the bags and factors of positions and the divisors of bags; null for arrays
/// that are not needed.
struct PlaceLists {
  std::int32_t* bags = nullptr;  ///< [places]
  float* factors = nullptr;      ///< [places]
  float* divisors = nullptr;     ///< [bags]

  PlaceLists(WorkspaceLayout& workspace, BagView const& view, Pooling pooling) {
    if (lists_places(view, pooling)) {
      bags = workspace.take<std::int32_t>(place_capacity(view));
    }
    if (has_factors(view, pooling)) {
      factors = workspace.take<float>(place_capacity(view));
    }
    if (has_divisors(view, pooling)) {
      divisors = workspace.take<float>(view.bags);
    }
  }
};

/// Returns the source that maps positions to rows of the output gradient. Enqueues the kernels that
/// write the source's arrays, if it needs any.
PlaceSource make_place_source(CudaStream stream,
                              RowGradientArgs const& args,
                              PlaceLists const& lists);

}  // namespace msstream::ops::kernels
