// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/split_slot.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// The messages in which ranks send each other pooled rows and their gradients. The message between
/// two ranks has the rows [most_bags, width] of the samples of one of them, one after the other,
/// where the width is that of the parts that the other one has.
namespace msstream::ops::kernels {

/// The element of a message that has a column of an output, or a part of its sum.
struct ColumnSource {
  std::int32_t rank;  ///< as many as there are ranks: the rows that the rank has looked up itself
  std::int32_t column;
};

struct JoinedColumnsArgs {
  float const* messages;       ///< message r begins at r * stride
  std::int64_t const* widths;  ///< [ranks], in device memory
  std::int64_t stride;
  float const* own;  ///< [rows, own_width]: rows that the rank has looked up itself
  std::int64_t own_width;
  std::int32_t ranks;
  ColumnSource const* sources;         ///< in device memory
  std::int32_t const* first_sources;   ///< [columns + 1], in device memory: of each column
  std::int32_t const* divisor_tables;  ///< [columns], in device memory; -1: not divided
  float const* divisors;               ///< [tables, rows]
  std::int64_t rows;
  std::int64_t columns;
  float* output;  ///< [rows, columns]
  /// The messages of late rows, if `messages` are the early ones, as RowPlace has both; otherwise
  /// null. Message r begins at r * late_stride.
  float const* late = nullptr;
  std::int64_t late_stride = 0;
  SplitSlot const* source_slots = nullptr;  ///< of each source, in device memory
  std::int64_t most_bags = 0;
};
/// Writes each output row from the messages of all ranks: the sum of the column's sources in their
/// order, divided by the bag's divisor; 0 if that is 0.
void joined_columns(HostStream stream, JoinedColumnsArgs const& args);
void joined_columns(CudaStream stream, JoinedColumnsArgs const& args);

struct SpreadColumnsArgs {
  float const* gradient;  ///< [rows, columns]
  std::int64_t rows;      ///< at most `most_bags`
  std::int64_t columns;
  std::int64_t ranks;
  std::int64_t most_bags;
  std::int64_t const* widths;          ///< [ranks], in device memory
  std::int64_t const* first_columns;   ///< [ranks], in device memory: into `sources`
  std::int32_t const* sources;         ///< in device memory: the column of each of a rank's columns
  std::int32_t const* divisor_tables;  ///< as in JoinedColumnsArgs
  float const* divisors;
  float scale;
  float* messages;
  std::int64_t stride;
};
/// Writes the gradients of the rows to the messages of all ranks, each divided by the bag's divisor
/// and times the scale; 0 if the divisor is 0, and for the samples from `rows` on. Fills whole
/// messages.
void spread_columns(HostStream stream, SpreadColumnsArgs const& args);
void spread_columns(CudaStream stream, SpreadColumnsArgs const& args);

}  // namespace msstream::ops::kernels
