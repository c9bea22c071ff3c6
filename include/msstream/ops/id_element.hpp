// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

namespace msstream::ops {

/// What ids and lengths may be.
template <class T>
concept IdElement = std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t>;

}  // namespace msstream::ops
