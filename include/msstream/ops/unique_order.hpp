// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// The order in which unique() numbers the distinct ids.
enum class UniqueOrder : std::uint8_t { ascending, first_occurrence };

}  // namespace msstream::ops
