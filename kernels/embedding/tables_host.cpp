// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/long_sum.hpp"
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "embedding/checks.hpp"
#include "embedding/pooling_divisor.hpp"
#include "embedding/tables.hpp"
#include "ids/bag_report_host.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// The output row of one bag while it is computed, with room for the widest table, and the
/// positions of its maxima.
class PooledRow {
 public:
  explicit PooledRow(std::int64_t widest)
      : row_(static_cast<std::size_t>(widest)), places_(static_cast<std::size_t>(widest)) {}

  void clear(std::int64_t width) {
    width_ = width;
    std::fill_n(row_.begin(), width, 0.0F);
    std::fill_n(places_.begin(), width, -1);
    std::fill(whole_.begin(), whole_.end(), 0.0);
  }
  /// Adds the float32 sum of a part of the bag to the float64 total. Called after each kRowsOfPart
  /// positions of a longer bag.
  void fold() {
    whole_.resize(row_.size());
    for (std::size_t c = 0; c < static_cast<std::size_t>(width_); ++c) {
      whole_[c] += static_cast<double>(std::exchange(row_[c], 0.0F));
    }
  }
  /// Replaces the row by the float64 total of its parts. Called after the last position of a bag of
  /// more than kRowsOfPart positions.
  void unfold() {
    fold();
    std::transform(whole_.begin(), whole_.begin() + width_, row_.begin(), [](double sum) {
      return static_cast<float>(sum);
    });
  }
  template <class T>
  void add(T const* row) {
    for (std::int64_t c = 0; c < width_; ++c) {
      row_[static_cast<std::size_t>(c)] += to_float(row[c]);
    }
  }
  template <class T>
  void add(T const* row, float weight) {
    for (std::int64_t c = 0; c < width_; ++c) {
      row_[static_cast<std::size_t>(c)] += weight * to_float(row[c]);
    }
  }
  template <class T>
  void take_larger(T const* row, bool is_first, std::int64_t place) {
    for (std::int64_t c = 0; c < width_; ++c) {
      float const element = to_float(row[c]);
      auto& largest = row_[static_cast<std::size_t>(c)];
      auto& winner = places_[static_cast<std::size_t>(c)];
      bool const takes = is_first || is_larger(element, largest);
      largest = takes ? element : largest;
      winner = takes ? static_cast<std::int32_t>(place) : winner;
    }
  }
  void divide(float divisor) {
    for (std::int64_t c = 0; c < width_; ++c) {
      auto& element = row_[static_cast<std::size_t>(c)];
      element = divisor == 0.0F ? 0.0F : element / divisor;
    }
  }
  template <class Out>
  void store(Out* to) const {
    for (std::int64_t c = 0; c < width_; ++c) {
      to[c] = from_float<Out>(row_[static_cast<std::size_t>(c)]);
    }
  }
  void store_argmax(std::int32_t* to) const {
    std::copy_n(places_.begin(), static_cast<std::size_t>(width_), to);
  }

 private:
  std::vector<float> row_;
  std::vector<std::int32_t> places_;  ///< of the maxima; -1 without one
  std::vector<double> whole_;         ///< sums of the earlier parts; empty unless a bag is long
  std::int64_t width_ = 0;
};

template <class Id, class T>
void pool_bag_of_table(TablesLookupArgs const& args,
                       TableDescriptor const& table,
                       std::int64_t number,
                       PlaceRange places,
                       std::int64_t default_place,
                       PooledRow& pooled,
                       std::uint64_t& out_of_range) {
  auto const* const rows = static_cast<T const*>(table.table);
  auto const row_of = [&](std::int64_t id) { return rows + id * table.width; };
  bool const is_max = table.pooling == Pooling::max;
  PoolingDivisor divisor;
  bool const is_long = !is_max && places.end - places.begin > kRowsOfPart;
  for (auto place = places.begin; place < places.end; ++place) {
    if (is_long && place > places.begin && (place - places.begin) % kRowsOfPart == 0) {
      pooled.fold();
    }
    auto const id = static_cast<std::int64_t>(static_cast<Id const*>(args.ids)[place]);
    if (!is_in_range(id, table.rows)) {
      if (out_of_range++ == 0) {
        spring_trap(args.report, {-1, id, number + 1, table.rows});
      }
    } else if (is_max) {
      pooled.take_larger(row_of(id), divisor.valid++ == 0, place);
    } else if (args.weights != nullptr) {
      float const weight = args.weights[place];
      pooled.add(row_of(id), weight);
      divisor.add_weight(table.pooling, weight);
      ++divisor.valid;
    } else {
      pooled.add(row_of(id));
      ++divisor.valid;
    }
  }
  if (is_long) {
    pooled.unfold();
  }
  if (divisor.valid == 0) {
    if (is_in_range(table.default_id, table.rows)) {
      is_max ? pooled.take_larger(row_of(table.default_id), true, default_place)
             : pooled.add(row_of(table.default_id));
    }
    return;
  }
  if (divides(table.pooling)) {
    pooled.divide(divisor.get(table.pooling, args.weights != nullptr));
  }
}

/// The table descriptors in device memory, which the host runtime can read directly, and the sizes
/// of the tables.
struct TablesInReach {
  TableDescriptor const* at;
  std::int64_t count;
  std::int64_t width;         ///< sum over all tables
  std::int64_t stride;        ///< elements from one output row to the next
  std::int64_t widest;        ///< width of the widest table
  std::int64_t argmax_width;  ///< sum of the widths over the tables of Pooling::max
  std::int64_t hotness;       ///< sum over all tables
};

/// Writes the output rows of the bags [first, last) of each table.
template <class Id>
void look_up_bags(TablesLookupArgs const& args,
                  TablesInReach const& tables,
                  BagOffsets<Id> const& offsets,
                  std::int64_t first,
                  std::int64_t last) {
  auto const existing = existing_bags(args);
  std::uint64_t out_of_range = 0;
  PooledRow pooled(tables.widest);
  for (std::int64_t number = 0; number < tables.count; ++number) {
    auto const& table = tables.at[number];
    with_real_type("embedding_tables_lookup: a table", table.dtype, [&](auto element) {
      with_real_type("embedding_tables_lookup: an output", args.output_dtype, [&](auto out) {
        auto* to = static_cast<typename decltype(out)::type*>(args.output) + first * tables.stride +
                   table.first_column;
        for (auto bag = first; bag < last; ++bag, to += tables.stride) {
          pooled.clear(table.width);
          if (bag < existing) {
            auto const of_all = number * args.batch + bag;
            bool const is_jagged = offsets.at != nullptr;
            if (is_jagged && offsets.is_bad(of_all) && out_of_range++ == 0) {
              spring_trap(args.report, offsets, of_all);
            }
            auto const places =
                is_jagged ? offsets.places_of(of_all) : places_of<Id>(args, table, number, bag);
            pool_bag_of_table<Id, typename decltype(element)::type>(
                args, table, number, places, args.capacity + of_all, pooled, out_of_range);
          }
          pooled.store(to);
          if (args.argmax != nullptr && table.pooling == Pooling::max) {
            pooled.store_argmax(args.argmax + bag * tables.argmax_width +
                                table.first_argmax_column);
          }
        }
      });
    });
  }
  count_out_of_range(args.report, out_of_range);
}

template <class Id>
void look_up_all(TablesLookupArgs const& args, TablesInReach const& tables) {
  // The estimate of the work assumes that all tables have rows of one width and, if there are
  // offsets, whose values only the device knows, bags of one length.
  auto const ids_of_bag = args.offsets != nullptr
                              ? args.capacity / std::max<std::int64_t>(1, args.batch)
                              : tables.hotness;
  auto const bytes = (ids_of_bag + tables.count) * tables.width *
                     static_cast<std::int64_t>(sizeof(float)) /
                     std::max<std::int64_t>(1, tables.count);
  auto const offsets =
      args.offsets != nullptr ? offsets_of<Id>(args).looked_at() : BagOffsets<Id>{};
  parallel_ranges(args.batch, grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    look_up_bags(args, tables, offsets, begin, end);
  });
}

}  // namespace

TablePlan plan_tables(std::vector<TableDescriptor> tables) {
  TablePlan plan;
  plan.first_rows = {0};
  std::vector<std::int32_t> pooled;
  std::int32_t number = 0;
  for (auto& table : tables) {
    require_real_type("EmbeddingTables: a table", table.dtype);
    auto const widest = static_cast<std::int32_t>(16 / bytes_of(table.dtype));
    bool const is_aligned =
        table.width % widest == 0 && reinterpret_cast<std::uintptr_t>(table.table) % 16 == 0;
    table.columns_a_lane = static_cast<std::uint8_t>(is_aligned ? widest : 1);
    table.log2_lanes = 0;
    while (table.log2_lanes < 5 && (table.columns_a_lane << table.log2_lanes) < table.width) {
      ++table.log2_lanes;
    }
    table.first_hotness = plan.hotness;
    table.first_column = plan.width;
    table.first_tile[0] = static_cast<std::int32_t>(plan.table_of_tile.size());
    table.first_tile[1] = static_cast<std::int32_t>(pooled.size());
    auto const tiles = [&](bool gathers) {
      auto const log2_bags = log2_bags_of_tile(table, gathers);
      return static_cast<std::size_t>(kChunkBags >> log2_bags);
    };
    plan.table_of_tile.insert(plan.table_of_tile.end(), tiles(table.hotness == 1), number);
    pooled.insert(pooled.end(), tiles(false), number);
    if (table.pooling == Pooling::max) {
      table.first_argmax_column = static_cast<std::int32_t>(plan.argmax_width);
      plan.argmax_width += table.width;
      plan.gathers_maxima = plan.gathers_maxima && table.hotness == 1;
      require_int32("EmbeddingTables", plan.argmax_width, "columns of maxima");
    }
    plan.hotness += table.hotness;
    plan.width += table.width;
    plan.widest = std::max<std::int64_t>(plan.widest, table.width);
    plan.first_rows.push_back(plan.first_rows.back() + table.rows);
    plan.has_default_ids = plan.has_default_ids || table.default_id >= 0;
    plan.has_divisors = plan.has_divisors || divides(table.pooling);
    plan.gathers_all = plan.gathers_all && table.hotness == 1;
    plan.least_log2_lanes = std::min<int>(plan.least_log2_lanes, table.log2_lanes);
    plan.loads_floats = plan.loads_floats && table.dtype == DType::float32 && is_aligned;
    ++number;
  }
  plan.fixed_tiles = static_cast<std::int64_t>(plan.table_of_tile.size());
  plan.pooled_tiles = static_cast<std::int64_t>(pooled.size());
  plan.table_of_tile.insert(plan.table_of_tile.end(), pooled.begin(), pooled.end());
  plan.tables = std::move(tables);
  return plan;
}

void embedding_tables_lookup(HostStream stream, TablesLookupArgs const& args) {
  require_tables_lookup(args);
  auto const& plan = *args.plan;
  TablesInReach const tables{args.tables,
                             static_cast<std::int64_t>(plan.tables.size()),
                             plan.width,
                             stride_or(args.output_stride, plan.width),
                             plan.widest,
                             plan.argmax_width,
                             plan.hotness};
  stream.run([args, tables] {
    args.id_dtype == DType::int32 ? look_up_all<std::int32_t>(args, tables)
                                  : look_up_all<std::int64_t>(args, tables);
  });
}

}  // namespace msstream::ops::kernels
