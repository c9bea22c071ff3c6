// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <cstdint>
#include <source_location>

namespace msstream::testing {

/// Returns a rank's part of a collective of float32, without memory.
[[nodiscard]] inline comm::detail::Part part(
    comm::detail::CollectiveKind kind,
    std::int64_t count = 8,
    int peer = 0,
    std::source_location issued_at = std::source_location::current()) {
  return {.what = {.kind = kind, .dtype = DType::float32, .count = count, .peer = peer},
          .issued_at = issued_at};
}

}  // namespace msstream::testing
