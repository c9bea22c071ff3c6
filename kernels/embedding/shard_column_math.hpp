// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/rounded.hpp"
#include "embedding/shard_columns.hpp"

#include <cstdint>

/// One element of the messages between ranks. The CPU and the CUDA implementation compute it by the
/// same operations.
namespace msstream::ops::kernels {

/// Returns an element of the early message of a rank, or of its late one; 0 in a bag without a row,
/// and where a place is not one that a rank writes.
MSSTREAM_HOST_DEVICE inline float split_element(JoinedColumnsArgs const& args,
                                                ColumnSource const& source,
                                                SplitSlot const& slot,
                                                std::int64_t row) {
  auto const* const early = args.messages + source.rank * args.stride;
  auto const place = RowPlace::of_float(early[slot.number_of(args.most_bags, row)]);
  auto const element = (place.is_late() ? 0 : slot.places(args.most_bags)) + place.element() +
                       source.column - slot.first_column;
  if (!place.has_row() || element >= (place.is_late() ? args.late_stride : args.stride)) {
    return 0.0F;
  }
  return place.is_late() ? args.late[source.rank * args.late_stride + element] : early[element];
}

MSSTREAM_HOST_DEVICE inline float joined_element(JoinedColumnsArgs const& args,
                                                 std::int64_t row,
                                                 std::int64_t column) {
  auto const first = args.first_sources[column];
  auto const last = args.first_sources[column + 1];
  Rounded sum{0.0F};
  for (auto i = first; i < last; ++i) {
    auto const source = args.sources[i];
    float const element = source.rank == args.ranks ? args.own[row * args.own_width + source.column]
                          : args.late != nullptr
                              ? split_element(args, source, args.source_slots[i], row)
                              : args.messages[source.rank * args.stride +
                                              row * args.widths[source.rank] + source.column];
    sum = i == first ? Rounded{element} : sum + Rounded{element};
  }
  auto const table = args.divisor_tables[column];
  if (table < 0) {
    return sum.value;
  }
  float const divisor = args.divisors[table * args.rows + row];
  return divisor == 0.0F ? 0.0F : (sum / Rounded{divisor}).value;
}

MSSTREAM_HOST_DEVICE inline float spread_element(SpreadColumnsArgs const& args,
                                                 std::int64_t rank,
                                                 std::int64_t element) {
  auto const width = args.widths[rank];
  auto const row = width > 0 ? element / width : args.rows;
  if (row >= args.rows) {
    return 0.0F;
  }
  auto const column = args.sources[args.first_columns[rank] + element % width];
  Rounded const gradient{args.gradient[row * args.columns + column]};
  Rounded const scale{args.scale};
  auto const table = args.divisor_tables[column];
  if (table < 0) {
    return (gradient * scale).value;
  }
  float const divisor = args.divisors[table * args.rows + row];
  return divisor == 0.0F ? 0.0F : (gradient / Rounded{divisor} * scale).value;
}

}  // namespace msstream::ops::kernels
