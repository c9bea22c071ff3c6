// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>

#include <cstdint>
#include <optional>

namespace msstream::ops::detail {

/// Throws std::invalid_argument unless the element type is float32, float16 or bfloat16. Called
/// when the operation is issued, because an exception on a launch thread would reach the caller too
/// late.
void require_weights(char const* operation, DType dtype);
/// Returns bags with one id each, of which the first *count exist if `count` is given.
[[nodiscard]] AnyBags bags_of_one(AnyTensor const& ids, DeviceCount<AnyRuntime> const& count);
/// Returns the output shape of a lookup: [bags, width], or [ids, width] for Pooling::none.
[[nodiscard]] Shape pooled_shape(AnyBags const& bags, Pooling pooling, std::int64_t width);
/// Throws std::invalid_argument if weights, a default id or an argmax tensor are given that the
/// pooling does not support, or if the argmax tensor does not have the shape `pooled`.
void require_pooling(char const* operation,
                     AnyBags const& bags,
                     Pooling pooling,
                     std::optional<TensorOf<std::int32_t>> const& argmax,
                     Shape const& pooled);

}  // namespace msstream::ops::detail
