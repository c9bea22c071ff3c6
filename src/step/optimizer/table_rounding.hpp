// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/stochastic_rounding.hpp"

#include <msstream/ops/random.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>

namespace msstream::detail {

/// The place of the part of a table that a rank has.
struct PartOfTable {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
};

/// Returns how the rows of a table, or of a part of it, are rounded. Parts of rows have the random
/// bits of the whole table. A part of columns, whose first column need not be a multiple of four,
/// has random bits of its own.
[[nodiscard]] inline ops::kernels::RowRounding rounding_of_table(
    OptimizerOptions const& options,
    std::string const& name,
    std::optional<PartOfTable> const& part) {
  auto const first_column = static_cast<std::uint64_t>(part ? part->first_column : 0);
  return {.is_stochastic = options.table_rounding == OptimizerOptions::Rounding::stochastic,
          .key = ops::kernels::rounding_key(options.rounding_seed,
                                            RandomKey::stream_of(name) + first_column),
          .first_row = part ? part->first_row : 0};
}

/// Returns a text that differs for optimizers that round tables differently, empty for nearest.
[[nodiscard]] inline std::string text_of_rounding(OptimizerOptions const& options) {
  return options.table_rounding == OptimizerOptions::Rounding::stochastic
             ? fmt::format(", stochastic rounding with seed {}", options.rounding_seed)
             : "";
}

}  // namespace msstream::detail
