// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/ops/kernels/embedding_gradient.hpp>

#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument for types and widths that no lookup is of.
inline void require_lookup(LookupArgs const& args) {
  auto const is_real = [](DType dtype) {
    return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  };
  require(is_real(args.table_dtype) && is_real(args.output_dtype),
          "embedding_lookup: a table of ",
          name_of(args.table_dtype),
          " into an output of ",
          name_of(args.output_dtype),
          "; expected float32, float16 or bfloat16");
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

/// How many rows a lookup writes.
[[nodiscard]] inline std::int64_t output_rows(LookupArgs const& args) {
  return args.pooling == Pooling::none ? args.bags.capacity : args.bags.bags;
}

}  // namespace msstream::ops::kernels
