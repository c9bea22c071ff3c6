// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>

namespace msstream::ops::detail {

/// Returns the size in bytes of a row of `width` elements of the tensor's type.
[[nodiscard]] inline std::int64_t row_bytes_of(msstream::detail::AnyTensor const& tensor,
                                               std::int64_t width) {
  return width * static_cast<std::int64_t>(bytes_of(tensor.dtype()));
}

}  // namespace msstream::ops::detail
