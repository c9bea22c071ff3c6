// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/real_types.hpp"
#include "common/require_int32.hpp"
#include "embedding/embedding_tables.hpp"
#include "embedding/lookup.hpp"
#include "ids/bag_layout.hpp"
#include "ids/deduplicate.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument if a lookup does not support the type of its ids, table or output,
/// the width of its rows or, if it writes argmax, the number of its ids.
inline void require_lookup(LookupArgs const& args) {
  require_id_type("embedding_lookup", args.bags.id_dtype);
  require_real_type("embedding_lookup: a table", args.table_dtype);
  require_real_type("embedding_lookup: an output", args.output_dtype);
  require_int32("embedding_lookup", args.width, "elements in a row");
  if (args.argmax != nullptr) {
    require_int32("embedding_lookup", place_capacity(args.bags), "places of a maximum");
  }
}

/// Throws std::invalid_argument if a lookup in many tables does not support the type of its ids or
/// its output or, if it writes argmax, the number of its ids. plan_tables() checks the types of the
/// tables.
inline void require_tables_lookup(TablesLookupArgs const& args) {
  require_id_type("embedding_tables_lookup", args.id_dtype);
  require_real_type("embedding_tables_lookup: an output", args.output_dtype);
  if (args.argmax != nullptr) {
    require_int32("embedding_tables_lookup", place_capacity(args), "places of a maximum");
  }
}

/// Returns the number of rows that a lookup writes.
[[nodiscard]] inline std::int64_t output_rows(LookupArgs const& args) {
  return args.pooling == Pooling::none ? args.bags.capacity : args.bags.bags;
}

}  // namespace msstream::ops::kernels
