// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "place_source.cuh"
#include "pooling_divisor.hpp"
#include "workspace_layout.hpp"

#include <msstream/ops/kernels/embedding_gradient.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// So few that a warp takes a row each, in one launch.
inline bool has_few_places(BagView const& bags) {
  constexpr std::int64_t kFewPlaces = 2048;
  return place_capacity(bags) <= kFewPlaces;
}

/// Whether bags divide by something other than 1.
inline bool has_divisors(BagView const& bags, Pooling pooling) {
  bool const one_id_a_bag = bags.offsets == nullptr && bags.hotness == 1;
  return divides(pooling) && (bags.weights != nullptr || !one_id_a_bag);
}
inline bool has_factors(BagView const& bags, Pooling pooling) {
  return has_divisors(bags, pooling) || (bags.weights != nullptr && pooling != Pooling::max);
}
/// Whether rows of places are listed before they are used, not computed.
inline bool lists_places(BagView const& bags, Pooling pooling) {
  return has_factors(bags, pooling) || (bags.offsets != nullptr && pooling != Pooling::none);
}

/// Memory for lists of places and bags: null for those that are not made.
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

/// Which rows the places read; issues what it takes to list them, if they are listed.
PlaceSource make_place_source(CudaStream stream,
                              RowGradientArgs const& args,
                              PlaceLists const& lists);

}  // namespace msstream::ops::kernels
