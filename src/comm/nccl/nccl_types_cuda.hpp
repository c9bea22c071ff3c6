// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_NCCL

#include <msstream/base/dtype.hpp>
#include <msstream/comm/reduction.hpp>

#include <nccl.h>

namespace msstream::comm::detail {

[[nodiscard]] inline ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::float16:
      return ncclFloat16;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::uint8:
      break;
  }
  return ncclUint8;
}

[[nodiscard]] inline ncclRedOp_t operation_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return ncclAvg;
    case Reduction::max:
      return ncclMax;
    case Reduction::min:
      return ncclMin;
    case Reduction::sum:
      break;
  }
  return ncclSum;
}

}  // namespace msstream::comm::detail

#endif
