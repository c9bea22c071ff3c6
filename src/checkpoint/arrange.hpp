// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <vector>

/// Functions for elements that a file has in another way than the tensor that they are loaded to.
namespace msstream::detail {

/// Returns the bytes of a tensor, made from those of the file.
using Arrange = std::function<std::vector<std::byte>(std::span<std::byte const> read)>;

/// Rounds float32 elements to the nearest ones of a type of 16 bits.
[[nodiscard]] Arrange round_to(DType dtype);
/// Transposes a matrix into the given one.
[[nodiscard]] Arrange transpose_to(AnyTensor const& matrix);
/// Puts row rows[i] of the file into row i of `table`. Rows with -1, and those beyond the list,
/// keep the elements that they have when the function is called.
[[nodiscard]] Arrange rows_to(AnyTensor const& table,
                              std::vector<std::int64_t> const& rows,
                              std::source_location issued_at);

}  // namespace msstream::detail
