// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"

#include <msstream/base/detail/require.hpp>

namespace msstream::ops::kernels {

void require_real_type(char const* what, DType dtype) {
  require(dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16,
          "{} of {}; expected float32, float16 or bfloat16",
          what,
          dtype);
}

}  // namespace msstream::ops::kernels
