// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <optional>

namespace msstream::detail {

/// The pooled rows of a lookup that came before it.
struct PooledAhead {
  /// The messages from all ranks: of all rows, or if they are split, of the early ones, as
  /// ops::kernels::SplitSlot has them.
  Floats rows;
  /// The positions of maxima in the bags that this rank has pooled ahead.
  std::optional<TensorOf<std::int32_t>> argmax = {};
  /// The bags of all ranks in the blocks of this rank, of which the lookup pools the late ones.
  struct Split {
    TensorOf<std::int64_t> offsets;   ///< of the early rows, by rank, slot and bag
    TensorOf<std::int64_t> late_ids;  ///< at the places of all ids; -1 in early bags
  };
  /// Without it, all rows are here.
  std::optional<Split> split = {};
};

}  // namespace msstream::detail
