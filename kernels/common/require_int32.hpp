// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument unless the count is below 2^31. The message is, for example,
/// "top_k: 4294967296 columns; expected fewer than 2^31".
void require_int32(char const* operation, std::int64_t count, char const* what);

}  // namespace msstream::ops::kernels
