// SPDX-License-Identifier: Apache-2.0
#include "common/require_int32.hpp"

#include <msstream/base/detail/require.hpp>

#include <limits>

namespace msstream::ops::kernels {

void require_int32(char const* operation, std::int64_t count, char const* what) {
  require(count <= std::numeric_limits<std::int32_t>::max(),
          "{}: {} {}; expected fewer than 2^31",
          operation,
          count,
          what);
}

}  // namespace msstream::ops::kernels
