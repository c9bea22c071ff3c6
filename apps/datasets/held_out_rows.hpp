// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>

#include <cstdint>

namespace msstream::datasets {

/// Removes the rows of a chunk that is_held_out() names, and returns them. The chunk begins with
/// row number `first_row`; `holdout` is at least 2. The other rows stay in their memory.
[[nodiscard]] data::Chunk take_held_out(data::Chunk& chunk,
                                        std::int64_t first_row,
                                        std::int64_t holdout);

}  // namespace msstream::datasets
