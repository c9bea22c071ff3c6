// SPDX-License-Identifier: Apache-2.0
#include "ids/bag_layout.hpp"

#include <msstream/base/detail/require.hpp>

namespace msstream::ops::kernels {

void require_id_type(char const* operation, DType dtype) {
  require(dtype == DType::int32 || dtype == DType::int64,
          "{}: ids of {}; expected int32 or int64",
          operation,
          dtype);
}

}  // namespace msstream::ops::kernels
