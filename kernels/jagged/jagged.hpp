// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The layout of jagged samples (samples of different lengths), which are stored one after the
/// other: sample b has the rows [offsets[b], offsets[b + 1]) of [capacity, row_bytes], or none if
/// its offsets are invalid (BagOffsets::is_bad). The dense form has max_length rows per sample.
struct JaggedLayout {
  std::int64_t const* offsets;  ///< device, [batch + 1], ascending, the last ≤ capacity
  std::int64_t batch;
  std::int64_t capacity;
  std::int64_t max_length;
  std::int64_t row_bytes;
  IdReport report = {};  ///< where samples with invalid offsets are reported
};

/// Copies jagged samples to rows of equal length: dense[b, l, :] = values[offsets[b] + l, :], or
/// the padding if the sample has no row l. Rows from max_length on are dropped.
struct JaggedToDenseArgs {
  JaggedLayout layout;
  void const* values;
  std::uint64_t padding_bits;  ///< the bits of one padding element
  std::size_t element_bytes;   ///< a power of two up to 8
  void* dense;                 ///< [batch, max_length, row_bytes]
};
void jagged_to_dense(HostStream stream, JaggedToDenseArgs const& args);
void jagged_to_dense(CudaStream stream, JaggedToDenseArgs const& args);

/// Copies rows of equal length to jagged samples: values[offsets[b] + l, :] = dense[b, l, :]. Rows
/// with l ≥ max_length, and rows that belong to no sample, are set to zero.
struct DenseToJaggedArgs {
  JaggedLayout layout;
  void const* dense;  ///< [batch, max_length, row_bytes]
  void* values;
};
void dense_to_jagged(HostStream stream, DenseToJaggedArgs const& args);
void dense_to_jagged(CudaStream stream, DenseToJaggedArgs const& args);

/// Repeats the row of each sample for all its jagged rows: output[i, :] = rows[b, :] for i in
/// [offsets[b], offsets[b + 1]). Output rows that belong to no sample are set to zero. The layout's
/// max_length is its capacity.
struct RepeatRowsArgs {
  JaggedLayout layout;
  void const* rows;  ///< [batch, row_bytes]
  void* output;      ///< [capacity, row_bytes]
};
void repeat_rows(HostStream stream, RepeatRowsArgs const& args);
void repeat_rows(CudaStream stream, RepeatRowsArgs const& args);

/// Writes the number of its sample for each jagged row: ids[i] = b for i in [offsets[b], offsets[b
/// + 1]), and -1 for rows that belong to no sample. The layout's max_length is its capacity, and
/// its row_bytes is the size of an id.
struct SegmentIdsArgs {
  JaggedLayout layout;
  std::int64_t* ids;  ///< [capacity]
};
void segment_ids(HostStream stream, SegmentIdsArgs const& args);
void segment_ids(CudaStream stream, SegmentIdsArgs const& args);

}  // namespace msstream::ops::kernels
