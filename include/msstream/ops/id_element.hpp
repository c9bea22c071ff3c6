// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

namespace msstream::ops {

/// The element types of ids and lengths: int64 and int32.
template <class T>
concept IdElement = std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t>;

}  // namespace msstream::ops
