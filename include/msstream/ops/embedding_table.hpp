// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/pooling.hpp>

#include <cstdint>
#include <optional>
#include <variant>

namespace msstream::ops {

/// One of many tables that are looked up together: its weights [rows, width] and the pooling of its
/// bags.
template <Runtime R = DefaultRuntime>
struct EmbeddingTable {
  std::variant<Tensor<float, R>, Tensor<float16, R>, Tensor<bfloat16, R>> weights;
  Pooling pooling = Pooling::sum;  ///< any pooling except none
  std::int64_t hotness = 1;        ///< ids per bag if the lookup has no offsets
  /// The id that a bag without a valid id holds instead. Null if such a bag is 0.
  std::optional<std::int64_t> default_id = {};
};

}  // namespace msstream::ops
