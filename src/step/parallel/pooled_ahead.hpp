// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <optional>

namespace msstream::detail {

/// The pooled rows of a lookup that came before it.
struct PooledAhead {
  /// The messages from all ranks: of all rows, or if they are split, the early ones, as
  /// ops::kernels::RowPlace has them.
  Floats rows;
  /// The positions of maxima in the bags that this rank has pooled ahead.
  std::optional<TensorOf<std::int32_t>> argmax = {};
  /// The bags of all ranks in the blocks of this rank, of which the lookup pools the late ones.
  struct Split {
    /// The sums of the ops::kernels::SplitCounts of all bags, by rank, slot and bag.
    TensorOf<std::int64_t> before;
    TensorOf<std::int64_t> late_ids;  ///< at the places of all ids; -1 in early bags
  };
  /// Without it, all rows are here.
  std::optional<Split> split = {};
};

}  // namespace msstream::detail
