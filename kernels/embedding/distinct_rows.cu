// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "common/rounded.hpp"
#include "common/search.hpp"
#include "embedding/distinct_rows.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kDistinctThreads = 256;
constexpr std::int64_t kMostBlocksOfSlot = 256;
constexpr std::int64_t kMostSlotsOfGrid = 32768;

[[nodiscard]] unsigned distinct_grid(std::int64_t items) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(ceil_div<std::int64_t>(items, kDistinctThreads), 1, 4096));
}
/// Returns a grid with a row of blocks for each slot, of which a slot may have up to `elements`.
[[nodiscard]] dim3 grid_of_slots(std::int64_t slots, std::int64_t elements) {
  auto const blocks = ceil_div<std::int64_t>(elements, kDistinctThreads);
  return {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocksOfSlot)),
          static_cast<unsigned>(std::min(slots, kMostSlotsOfGrid))};
}

__global__ void __launch_bounds__(kDistinctThreads)
    lower_bounds_kernel(__grid_constant__ LowerBoundsArgs const args) {
  auto const count = *args.count;
  for (auto i = grid_thread(); i < args.border_count; i += grid_stride()) {
    auto const border = args.borders[i];
    std::int64_t low = 0;
    auto high = count;
    while (low < high) {
      auto const middle = low + (high - low) / 2;
      if (args.values[middle] < border) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    args.found[i] = low;
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    distinct_headers_kernel(__grid_constant__ DistinctIdsArgs const args) {
  for (auto t = grid_thread(); t < args.table_count; t += grid_stride()) {
    auto const range = args.rows_of_table(t);
    auto const* const bounds = args.bounds + 2 * args.slot_count + t;
    args.ranges[t] = {range.begin, range.end - range.begin, 0};
    if (bounds[1] - bounds[0] > args.rooms[t] && args.overflow.trap != nullptr) {
      auto report = args.overflow;
      report.operation = args.operations[t];
      spring_trap(report, Caught{kTooManyRows, bounds[1] - bounds[0], 0, args.rooms[t]});
    }
  }
  for (auto m = grid_thread(); m < args.message_count; m += grid_stride()) {
    args.write_header(m);
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    distinct_ids_kernel(__grid_constant__ DistinctIdsArgs const args) {
  for (std::int64_t s = blockIdx.y; s < args.slot_count; s += gridDim.y) {
    auto const slot = args.slots[s];
    auto const message = args.messages[slot.message];
    auto const range = args.rows_of_slot(s);
    if (grid_thread() == 0) {
      args.places[s] = range.begin - args.rows_of_table(slot.table).begin;
    }
    auto* const numbers = args.numbers + slot.message * args.stride;
    auto* const ids = numbers + 2 * (message.slots + 1) + numbers[s - message.first_slot];
    for (auto i = range.begin + grid_thread(); i < range.end; i += grid_stride()) {
      ids[i - range.begin] = args.values[i] - slot.first_row;
    }
  }
}

[[nodiscard]] __device__ float element_of(TableDescriptor const& table,
                                          std::int64_t id,
                                          std::int64_t column) {
  if (!is_in_range(id, table.rows)) {
    return 0.0F;
  }
  auto const i = id * table.width + column;
  return table.dtype == DType::float16    ? widen(static_cast<float16 const*>(table.table)[i])
         : table.dtype == DType::bfloat16 ? widen(static_cast<bfloat16 const*>(table.table)[i])
                                          : static_cast<float const*>(table.table)[i];
}

__global__ void __launch_bounds__(kDistinctThreads)
    sent_rows_kernel(__grid_constant__ SentRowsArgs const args) {
  if (blockIdx.y == 0) {
    for (auto m = grid_thread(); m < args.messages; m += grid_stride()) {
      args.counts[m] = args.ids.elements_of(m, args.table_count);
    }
  }
  for (std::int64_t i = blockIdx.y; i < args.messages * args.table_count; i += gridDim.y) {
    auto const m = i / args.table_count;
    auto const t = i % args.table_count;
    auto const& table = args.tables[t];
    auto const rows = args.ids.rows_of(m, t, table.width);
    auto* const to = args.rows + m * args.ids.row_stride + rows.element;
    for (auto e = grid_thread(); e < rows.count * table.width; e += grid_stride()) {
      to[e] = element_of(table, rows.ids[e / table.width], e % table.width);
    }
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    placed_rows_kernel(__grid_constant__ PlacedRowsArgs const args) {
  for (auto s = args.at.first_slot + blockIdx.y; s < args.at.first_slot + args.at.slot_count;
       s += gridDim.y) {
    auto const slot = args.at.slots[s];
    if (slot.returns == 0) {
      continue;
    }
    auto const rows = args.at.rows_of(s);
    auto const* const from =
        args.rows + (slot.message - args.first_message) * args.at.row_stride + rows.element;
    auto* const to = args.tables + slot.first_element + args.at.places[s] * slot.table_columns +
                     slot.first_column;
    for (auto e = grid_thread(); e < rows.count * slot.columns; e += grid_stride()) {
      auto const row = e / slot.columns;
      auto const place = args.has_positions ? rows.ids[row] : row;
      to[place * slot.table_columns + e % slot.columns] = from[e];
    }
  }
}

[[nodiscard]] __device__ bool occurs(RowsOfSlot const& rows, std::int64_t id) {
  auto const found = count_not_above(rows.ids, rows.count, id);
  return found > 0 && rows.ids[found - 1] == id;
}

// All flags of a slot, and with the last slot those behind its ids.
__global__ void __launch_bounds__(kDistinctThreads)
    touched_ids_kernel(__grid_constant__ TouchedIdsArgs const args) {
  for (std::int64_t k = blockIdx.y; k < args.messages * args.slots; k += gridDim.y) {
    auto const m = k / args.slots;
    auto const s = k % args.slots;
    auto const rows = args.ids.ids_of(m, s);
    auto* const flags = args.flags + m * args.flag_stride;
    for (auto i = grid_thread(); i < rows.count; i += grid_stride()) {
      bool is_touched = false;
      for (std::int64_t other = 0; other < args.messages && !is_touched; ++other) {
        is_touched = occurs(args.others.ids_of(other, s), rows.ids[i]);
      }
      flags[rows.first + i] = is_touched ? 1 : 0;
    }
    if (s + 1 == args.slots) {
      auto const end = rows.first + rows.count;
      if (grid_thread() == 0) {
        args.counts[m] = end;
      }
      for (auto i = end + grid_thread(); i < args.flag_stride; i += grid_stride()) {
        flags[i] = 0;
      }
    }
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    split_headers_kernel(__grid_constant__ SplitIdsArgs const args) {
  for (auto m = grid_thread(); m < args.messages; m += grid_stride()) {
    args.write_headers(m);
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    split_ids_kernel(__grid_constant__ SplitIdsArgs const args) {
  for (std::int64_t k = blockIdx.y; k < args.messages * args.most_slots; k += gridDim.y) {
    auto const m = k / args.most_slots;
    auto const s = k % args.most_slots;
    auto const about = args.about(m);
    if (s >= about.returned) {
      continue;
    }
    auto const rows = args.ids(about).ids_of(m, s);
    for (auto i = grid_thread(); i < rows.count; i += grid_stride()) {
      args.write_id(m, s, rows, i);
    }
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    sent_gradients_kernel(__grid_constant__ SentGradientsArgs const args) {
  if (blockIdx.y == 0) {
    for (auto m = grid_thread(); m < args.message_count; m += grid_stride()) {
      args.counts[m] = args.at.elements_of(m);
    }
  }
  for (auto s = args.at.first_slot + blockIdx.y; s < args.at.first_slot + args.at.slot_count;
       s += gridDim.y) {
    auto const slot = args.at.slots[s];
    auto const rows = args.at.rows_of(s);
    auto* const to = args.rows + slot.message * args.at.row_stride + rows.element;
    auto const first = args.table_starts[slot.table] + args.at.places[s];
    auto const left = args.value_rows - first;
    auto const elements = (rows.count < left ? rows.count : left) * slot.columns;
    for (auto e = grid_thread(); e < elements; e += grid_stride()) {
      auto const row = first + e / slot.columns;
      auto const column = slot.first_column + e % slot.columns;
      Rounded const value{args.values[row * args.value_columns + column]};
      to[e] = (value * Rounded{args.scale}).value;
    }
  }
}

__global__ void __launch_bounds__(kDistinctThreads)
    received_gradients_kernel(__grid_constant__ ReceivedGradientsArgs const args) {
  for (std::int64_t i = blockIdx.y; i < args.messages * args.table_count; i += gridDim.y) {
    auto const m = i / args.table_count;
    auto const t = i % args.table_count;
    auto const width = args.tables[t].width;
    auto const rows = args.ids.rows_of(m, args.first_slot + t, width);
    auto const place = args.place_of(m, rows);
    if (place < 0) {
      continue;
    }
    auto const* const from = args.rows + m * args.ids.row_stride + rows.element;
    for (auto e = grid_thread(); e < rows.count * args.columns; e += grid_stride()) {
      auto const row = e / args.columns;
      auto const column = e % args.columns;
      if (column == 0) {
        auto const id = rows.ids[row];
        args.keys[place + row] =
            is_in_range(id, args.tables[t].rows) ? args.first_rows[t] + id : -1;
      }
      args.values[(place + row) * args.columns + column] =
          column < width ? from[row * width + column] : 0.0F;
    }
  }
}

}  // namespace

void lower_bounds(CudaStream stream, LowerBoundsArgs const& args) {
  if (args.border_count > 0) {
    lower_bounds_kernel<<<distinct_grid(args.border_count), kDistinctThreads, 0, stream.handle>>>(
        args);
    check_launch("lower_bounds");
  }
}

void distinct_ids(CudaStream stream, DistinctIdsArgs const& args) {
  auto const items = std::max(args.table_count, args.message_count);
  distinct_headers_kernel<<<distinct_grid(items), kDistinctThreads, 0, stream.handle>>>(args);
  check_launch("distinct_headers");
  if (args.slot_count > 0) {
    distinct_ids_kernel<<<grid_of_slots(args.slot_count, args.most_ids),
                          kDistinctThreads,
                          0,
                          stream.handle>>>(args);
    check_launch("distinct_ids");
  }
}

void sent_rows(CudaStream stream, SentRowsArgs const& args) {
  if (args.messages > 0) {
    auto const slots = std::max<std::int64_t>(1, args.messages * args.table_count);
    sent_rows_kernel<<<grid_of_slots(slots, args.most_elements),
                       kDistinctThreads,
                       0,
                       stream.handle>>>(args);
    check_launch("sent_rows");
  }
}

void placed_rows(CudaStream stream, PlacedRowsArgs const& args) {
  if (args.at.slot_count > 0) {
    placed_rows_kernel<<<grid_of_slots(args.at.slot_count, args.at.most_elements),
                         kDistinctThreads,
                         0,
                         stream.handle>>>(args);
    check_launch("placed_rows");
  }
}

void touched_ids(CudaStream stream, TouchedIdsArgs const& args) {
  if (auto const slots = args.messages * args.slots; slots > 0) {
    touched_ids_kernel<<<grid_of_slots(slots, args.most_ids), kDistinctThreads, 0, stream.handle>>>(
        args);
    check_launch("touched_ids");
  }
}

void split_ids(CudaStream stream, SplitIdsArgs const& args) {
  if (args.messages > 0 && args.most_slots > 0) {
    split_headers_kernel<<<distinct_grid(args.messages), kDistinctThreads, 0, stream.handle>>>(
        args);
    check_launch("split_headers");
    split_ids_kernel<<<grid_of_slots(args.messages * args.most_slots, args.most_ids),
                       kDistinctThreads,
                       0,
                       stream.handle>>>(args);
    check_launch("split_ids");
  }
}

void sent_gradients(CudaStream stream, SentGradientsArgs const& args) {
  auto const slots = std::max<std::int64_t>(1, args.at.slot_count);
  sent_gradients_kernel<<<grid_of_slots(slots, args.at.most_elements),
                          kDistinctThreads,
                          0,
                          stream.handle>>>(args);
  check_launch("sent_gradients");
}

void received_gradients(CudaStream stream, ReceivedGradientsArgs const& args) {
  if (auto const slots = args.messages * args.table_count; slots > 0) {
    received_gradients_kernel<<<grid_of_slots(slots, args.most_elements),
                                kDistinctThreads,
                                0,
                                stream.handle>>>(args);
    check_launch("received_gradients");
  }
}

}  // namespace msstream::ops::kernels
