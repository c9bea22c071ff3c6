// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// output[b, :] = pooling over the valid ids of bag b of table[id, :], accumulated in float in the
/// order of the ids, the sums of parts of 32 places in double, rounded to nearest even into the
/// output: both twins give the same bits.
struct LookupArgs {
  void const* table;  ///< [rows, width] of `table_dtype`
  DType table_dtype;  ///< float32, float16 or bfloat16
  std::int64_t rows;
  std::int64_t width;
  BagView bags;
  Pooling pooling;
  IdReport report;
  void* output;        ///< [bags, width] of `output_dtype`; without pooling [capacity, width]
  DType output_dtype;  ///< float32, float16 or bfloat16
  /// For max, or null. [bags, width]: the place of the id whose row gave the element, the first of
  /// equal ones; capacity + b where that is the default id of bag b; -1 where there is none.
  std::int32_t* argmax = nullptr;
};
void embedding_lookup(HostStream stream, LookupArgs const& args);
void embedding_lookup(CudaStream stream, LookupArgs const& args);

}  // namespace msstream::ops::kernels
