// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/gradients.hpp"
#include "ops/common/bag_view.hpp"

#include <msstream/ops/embedding.hpp>

#include <cstdint>
#include <optional>

namespace msstream::ops::detail {

/// Returns the arguments of the kernels that compute the gradient of a lookup, except for the
/// output and the workspace. Adds the tensors that the kernels read to `read`. Throws
/// std::invalid_argument for shapes and options that do not fit each other.
[[nodiscard]] kernels::RowGradientArgs row_gradient_args(
    char const* operation,
    AnyBags const& bags,
    UniqueRows<AnyRuntime> const& unique,
    std::int64_t rows,
    Pooling pooling,
    AnyTensor const& output_gradient,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    Reads& read);

}  // namespace msstream::ops::detail
