// SPDX-License-Identifier: Apache-2.0
#include "common/id_report_host.hpp"
#include "common/parallel_rows_host.hpp"
#include "common/rounded.hpp"
#include "embedding/distinct_rows.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kFloatBytes = 4;

template <class T>
void copy_row(void const* table, std::int64_t id, std::int64_t columns, float* to) {
  auto const* const row = static_cast<T const*>(table) + id * columns;
  for (std::int64_t c = 0; c < columns; ++c) {
    to[c] = to_float(row[c]);
  }
}

void read_row(TableDescriptor const& table, std::int64_t id, float* to) {
  if (!is_in_range(id, table.rows)) {
    std::fill_n(to, table.width, 0.0F);
  } else if (table.dtype == DType::float16) {
    copy_row<float16>(table.table, id, table.width, to);
  } else if (table.dtype == DType::bfloat16) {
    copy_row<bfloat16>(table.table, id, table.width, to);
  } else {
    copy_row<float>(table.table, id, table.width, to);
  }
}

/// Calls function(row) for each row of a slot.
template <class Function>
void for_each_row(std::int64_t rows, std::int64_t columns, Function const& function) {
  parallel_ranges(rows, grain_of(columns * kFloatBytes), [&](std::int64_t begin, std::int64_t end) {
    for (auto row = begin; row < end; ++row) {
      function(row);
    }
  });
}

}  // namespace

void lower_bounds(HostStream stream, LowerBoundsArgs const& args) {
  stream.run([args] {
    auto const* const end = args.values + *args.count;
    for (std::int64_t i = 0; i < args.border_count; ++i) {
      args.found[i] = std::lower_bound(args.values, end, args.borders[i]) - args.values;
    }
  });
}

void distinct_ids(HostStream stream, DistinctIdsArgs const& args) {
  stream.run([args] {
    for (std::int64_t t = 0; t < args.table_count; ++t) {
      auto const range = args.rows_of_table(t);
      auto const count =
          args.bounds[2 * args.slot_count + t + 1] - args.bounds[2 * args.slot_count + t];
      args.ranges[t] = {range.begin, range.end - range.begin, 0};
      if (count > args.rooms[t]) {
        auto report = args.overflow;
        report.operation = args.operations[t];
        spring_trap(report, {kTooManyRows, count, 0, args.rooms[t]});
      }
    }
    for (std::int64_t m = 0; m < args.message_count; ++m) {
      args.write_header(m);
    }
    for (std::int64_t s = 0; s < args.slot_count; ++s) {
      auto const& slot = args.slots[s];
      auto const& message = args.messages[slot.message];
      auto const range = args.rows_of_slot(s);
      args.places[s] = range.begin - args.rows_of_table(slot.table).begin;
      auto* const numbers = args.numbers + slot.message * args.stride;
      auto* const ids = numbers + 2 * (message.slots + 1) + numbers[s - message.first_slot];
      for (auto i = range.begin; i < range.end; ++i) {
        ids[i - range.begin] = args.values[i] - slot.first_row;
      }
    }
  });
}

void sent_rows(HostStream stream, SentRowsArgs const& args) {
  stream.run([args] {
    for (std::int64_t m = 0; m < args.messages; ++m) {
      args.counts[m] = args.ids.elements_of(m, args.table_count);
      for (std::int64_t t = 0; t < args.table_count; ++t) {
        auto const& table = args.tables[t];
        auto const rows = args.ids.rows_of(m, t, table.width);
        auto* const to = args.rows + m * args.ids.row_stride + rows.element;
        for_each_row(rows.count, table.width, [&](std::int64_t row) {
          read_row(table, rows.ids[row], to + row * table.width);
        });
      }
    }
  });
}

void placed_rows(HostStream stream, PlacedRowsArgs const& args) {
  stream.run([args] {
    auto const end = args.at.first_slot + args.at.slot_count;
    for (auto s = args.at.first_slot; s < end; ++s) {
      auto const& slot = args.at.slots[s];
      if (slot.returns == 0) {
        continue;
      }
      auto const rows = args.at.rows_of(s);
      auto const* const from =
          args.rows + (slot.message - args.first_message) * args.at.row_stride + rows.element;
      auto* const to = args.tables + slot.first_element + args.at.places[s] * slot.table_columns +
                       slot.first_column;
      for_each_row(rows.count, slot.columns, [&](std::int64_t row) {
        auto const place = args.has_positions ? rows.ids[row] : row;
        std::copy_n(from + row * slot.columns, slot.columns, to + place * slot.table_columns);
      });
    }
  });
}

void touched_ids(HostStream stream, TouchedIdsArgs const& args) {
  stream.run([args] {
    for (std::int64_t m = 0; m < args.messages; ++m) {
      auto* const flags = args.flags + m * args.flag_stride;
      std::fill_n(flags, args.flag_stride, 0);
      args.counts[m] = 0;
      for (std::int64_t s = 0; s < args.slots; ++s) {
        auto const rows = args.ids.ids_of(m, s);
        args.counts[m] = rows.first + rows.count;
        for (std::int64_t other = 0; other < args.messages; ++other) {
          auto const others = args.others.ids_of(other, s);
          for (std::int64_t i = 0; i < rows.count; ++i) {
            if (std::binary_search(others.ids, others.ids + others.count, rows.ids[i])) {
              flags[rows.first + i] = 1;
            }
          }
        }
      }
    }
  });
}

void split_ids(HostStream stream, SplitIdsArgs const& args) {
  stream.run([args] {
    for (std::int64_t m = 0; m < args.messages; ++m) {
      args.write_headers(m);
      auto const& about = args.about(m);
      for (std::int64_t s = 0; s < about.returned; ++s) {
        auto const rows = args.ids(about).ids_of(m, s);
        for (std::int64_t i = 0; i < rows.count; ++i) {
          args.write_id(m, s, rows, i);
        }
      }
    }
  });
}

void sent_gradients(HostStream stream, SentGradientsArgs const& args) {
  stream.run([args] {
    for (std::int64_t m = 0; m < args.message_count; ++m) {
      args.counts[m] = args.at.elements_of(m);
    }
    auto const end = args.at.first_slot + args.at.slot_count;
    for (auto s = args.at.first_slot; s < end; ++s) {
      auto const& slot = args.at.slots[s];
      auto const rows = args.at.rows_of(s);
      auto* const to = args.rows + slot.message * args.at.row_stride + rows.element;
      auto const first = args.table_starts[slot.table] + args.at.places[s];
      for_each_row(std::min(rows.count, args.value_rows - first), slot.columns, [&](auto row) {
        auto const* const from =
            args.values + (first + row) * args.value_columns + slot.first_column;
        for (std::int32_t c = 0; c < slot.columns; ++c) {
          to[row * slot.columns + c] = (Rounded{from[c]} * Rounded{args.scale}).value;
        }
      });
    }
  });
}

void received_gradients(HostStream stream, ReceivedGradientsArgs const& args) {
  stream.run([args] {
    for (std::int64_t m = 0; m < args.messages; ++m) {
      for (std::int64_t t = 0; t < args.table_count; ++t) {
        auto const width = args.tables[t].width;
        auto const rows = args.ids.rows_of(m, args.first_slot + t, width);
        auto const place = args.place_of(m, rows);
        if (place < 0) {
          continue;
        }
        auto const* const from = args.rows + m * args.ids.row_stride + rows.element;
        for_each_row(rows.count, args.columns, [&](std::int64_t row) {
          auto const id = rows.ids[row];
          args.keys[place + row] =
              is_in_range(id, args.tables[t].rows) ? args.first_rows[t] + id : -1;
          auto* const to = args.values + (place + row) * args.columns;
          std::copy_n(from + row * width, width, to);
          std::fill(to + width, to + args.columns, 0.0F);
        });
      }
    }
  });
}

}  // namespace msstream::ops::kernels
