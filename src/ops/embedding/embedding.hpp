// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>

#include <cstdint>
#include <optional>

namespace msstream::ops::detail {

/// Throws std::invalid_argument unless the type is float32, float16 or bfloat16. The check is made
/// when the operation is issued, because a throw on a launch thread would come too late.
void require_weights(char const* operation, DType dtype);
/// Returns the output shape of a lookup: [bags, width], or [ids, width] for Pooling::none.
[[nodiscard]] Shape pooled_shape(AnyBags const& bags, Pooling pooling, std::int64_t width);
/// Throws std::invalid_argument for weights, a default id or an argmax that do not go with the
/// pooling, and for an argmax of another shape than `pooled`.
void require_pooling(char const* operation,
                     AnyBags const& bags,
                     Pooling pooling,
                     std::optional<TensorOf<std::int32_t>> const& argmax,
                     Shape const& pooled);

}  // namespace msstream::ops::detail
