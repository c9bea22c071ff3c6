// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

/// Copies a matrix [rows, n] to the columns [first, first + n) of another one with as many rows, of
/// the same type: float32, float16 or bfloat16.
void copy_to_columns(AnyTensor const& from,
                     AnyTensor const& packed,
                     std::int64_t first,
                     std::source_location issued_at);
/// Returns a copy of the columns [first, first + width) of a matrix of such a type.
[[nodiscard]] AnyTensor copy_of_columns(AnyTensor const& packed,
                                        std::int64_t first,
                                        std::int64_t width,
                                        std::source_location issued_at);

}  // namespace msstream::ops::detail
