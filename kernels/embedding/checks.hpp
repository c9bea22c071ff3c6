// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/real_types.hpp"
#include "embedding/embedding_tables.hpp"
#include "embedding/lookup.hpp"
#include "ids/bag_layout.hpp"
#include "ids/deduplicate.hpp"

#include <msstream/base/error.hpp>

#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument if a lookup does not support the type of its ids, table or output,
/// the width of its rows or, if it writes argmax, the number of its ids.
inline void require_lookup(LookupArgs const& args) {
  require_id_type("embedding_lookup", args.bags.id_dtype);
  require_real_type("embedding_lookup: a table", args.table_dtype);
  require_real_type("embedding_lookup: an output", args.output_dtype);
  require(args.width <= std::numeric_limits<std::int32_t>::max(),
          "embedding_lookup: rows of ",
          args.width,
          " elements; expected below 2^31");
  require(args.argmax == nullptr ||
              place_capacity(args.bags) <= std::numeric_limits<std::int32_t>::max(),
          "embedding_lookup: the places of a maximum among ",
          place_capacity(args.bags),
          " ids; expected below 2^31");
}

/// Throws std::invalid_argument if a lookup in many tables does not support the type of its ids or
/// its output. plan_tables() checks the types of the tables.
inline void require_tables_lookup(TablesLookupArgs const& args) {
  require_id_type("embedding_tables_lookup", args.id_dtype);
  require_real_type("embedding_tables_lookup: an output", args.output_dtype);
}

/// Returns the number of rows that a lookup writes.
[[nodiscard]] inline std::int64_t output_rows(LookupArgs const& args) {
  return args.pooling == Pooling::none ? args.bags.capacity : args.bags.bags;
}

}  // namespace msstream::ops::kernels
