// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"
#include "ids/bag_view.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Pools embedding rows: output[b, :] is the pooling of table[id, :] over the valid ids of bag b.
/// Rows are accumulated in float in the order of the ids; runs of 64 ids are summed in float, and
/// the sums of the runs are added in double. The result is rounded to nearest even. The host and
/// the CUDA implementation give the same bits.
struct LookupArgs {
  void const* table;  ///< [rows, width] of `table_dtype`
  DType table_dtype;  ///< float32, float16 or bfloat16
  std::int64_t rows;
  std::int64_t width;
  BagView bags;
  Pooling pooling;
  IdReport report;
  void* output;        ///< [bags, width] of `output_dtype`; [capacity, width] for Pooling::none
  DType output_dtype;  ///< float32, float16 or bfloat16
  /// For Pooling::max, an output array [bags, width], or null. Receives for each output element the
  /// index of the id whose row has the maximum, the first of equal ones; capacity + b if it is the
  /// default id of bag b; -1 if the bag has no row.
  std::int32_t* argmax = nullptr;
};
void embedding_lookup(HostStream stream, LookupArgs const& args);
void embedding_lookup(CudaStream stream, LookupArgs const& args);

/// Launches a lookup with the kernels of plain_lookup.cuh. Returns false, and launches nothing, if
/// the lookup is not plain or if the other kernels are faster for its shape.
[[nodiscard]] bool launch_plain_lookup(CudaStream stream, LookupArgs const& args);

}  // namespace msstream::ops::kernels
