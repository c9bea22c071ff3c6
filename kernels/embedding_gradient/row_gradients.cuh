// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/workspace_layout.hpp"
#include "embedding_gradient/gradients.hpp"
#include "embedding_gradient/grouped_sums.cuh"
#include "embedding_gradient/places.cuh"

#include <cstdint>
#include <optional>

namespace msstream::ops::kernels {

/// The workspace for summing the gradients of rows. If there are few positions, no partial sums
/// need memory.
struct RowGradientMemory {
  std::optional<GroupedBorders> borders;
  PlaceLists lists;

  RowGradientMemory(WorkspaceLayout& workspace,
                    BagView const& bags,
                    Pooling pooling,
                    std::int64_t width)
      : borders(has_few_places(bags)
                    ? std::nullopt
                    : std::optional(GroupedBorders(workspace, place_capacity(bags), width))),
        lists(workspace, bags, pooling) {}
};

/// Returns the number of rows of the output gradient.
inline std::int64_t gradient_row_count(RowGradientArgs const& args) {
  return args.pooling == Pooling::none ? place_capacity(args.bags) : args.bags.bags;
}

/// Returns whether four columns of each row of the output gradient can be read at once.
template <class T>
bool allows_whole_loads(RowGradientArgs const& args) {
  return allows_vectors(static_cast<T const*>(args.output_gradient), args.width, 4) &&
         (args.pooling != Pooling::max || allows_vectors(args.argmax, args.width, 4));
}

}  // namespace msstream::ops::kernels
