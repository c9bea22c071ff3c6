// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msstream::training {

/// Selects the ids and rows that ranks send each other for the lookups of the next batch, in tables
/// in parts, beside the dense part of a batch. none: nothing; ids: the ids; rows: the ids, and
/// those rows that the batch does not move; stale_rows: the ids, and all rows as they are before
/// the update. All but the last train with the same bits.
enum class Lookahead : std::uint8_t { none, ids, rows, stale_rows };
[[nodiscard]] std::string_view name_of(Lookahead lookahead);

}  // namespace msstream::training
