// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Converts an array of ids: to[i] = from[i], from int32 or int64 to either type. A number that
/// does not fit into 32 bits becomes -1, which is no row, bag or offset.
struct CastIdsArgs {
  void const* from;  ///< [count] of `from_dtype`
  DType from_dtype;  ///< int32 or int64
  void* to;          ///< [count] of `to_dtype`
  DType to_dtype;    ///< int32 or int64
  std::int64_t count;
};
void cast_ids(HostStream stream, CastIdsArgs const& args);
void cast_ids(CudaStream stream, CastIdsArgs const& args);

}  // namespace msstream::ops::kernels
