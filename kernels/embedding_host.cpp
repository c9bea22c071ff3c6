// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "column_count_host.hpp"
#include "id_report_host.hpp"
#include "parallel_rows_host.hpp"
#include "row_prefetch_host.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/embedding.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// Calls `function(begin, end)` for ranges of all bags, of about as many places each.
template <class Function>
void for_bags(BagLayout const& bags, std::int64_t grain, Function const& function) {
  if (bags.offsets != nullptr) {
    parallel_rows(bags.offsets, existing_bags(bags), grain, function);
  } else {
    parallel_ranges(
        existing_bags(bags), std::max<std::int64_t>(1, grain / (bags.hotness + 1)), function);
  }
}

template <class T, class Columns>
void pool_bags(LookupArgs const& args, Columns columns, std::int64_t begin, std::int64_t end) {
  auto const* const table = static_cast<T const*>(args.table);
  RowPrefetch const prefetch(table, columns, args.ids, places_of_bag(args.bags, end - 1).end);
  std::uint64_t out_of_range = 0;
  for (auto bag = begin; bag < end; ++bag) {
    auto const places = places_of_bag(args.bags, bag);
    std::int64_t valid = 0;
    add_rows(columns, args.output + bag * columns.count(), [&](auto add_row) {
      for (auto place = places.begin; place < places.end; ++place) {
        prefetch.ahead_of(place);
        auto const id = args.ids[place];
        if (is_in_range(id, args.rows)) {
          add_row(table + id * columns.count(), 1.0F);
          ++valid;
        } else if (out_of_range++ == 0) {
          spring_trap(args.report, id, args.rows);
        }
      }
      return args.pooling == Pooling::mean && valid > 1 ? static_cast<float>(valid) : 1.0F;
    });
  }
  count_out_of_range(args.report, out_of_range);
}

template <class T, class Columns>
void pool_all_bags(LookupArgs const& args, Columns columns) {
  auto const grain = grain_of(columns.count() * static_cast<std::int64_t>(sizeof(T)));
  for_bags(args.bags, grain, [&](std::int64_t begin, std::int64_t end) {
    pool_bags<T>(args, columns, begin, end);
  });
  std::fill(args.output + existing_bags(args.bags) * columns.count(),
            args.output + args.bags.bags * columns.count(),
            0.0F);
}

/// The bag of every place; none where they all have one length.
std::vector<std::int32_t> bags_of_places(BagLayout const& bags) {
  std::vector<std::int32_t> out;
  if (bags.offsets != nullptr) {
    out.resize(static_cast<std::size_t>(existing_places(bags).end));
    for_bags(bags, grain_of(sizeof(std::int32_t)), [&](std::int64_t begin, std::int64_t end) {
      for (auto bag = begin; bag < end; ++bag) {
        auto const places = places_of_bag(bags, bag);
        std::fill(
            out.begin() + places.begin, out.begin() + places.end, static_cast<std::int32_t>(bag));
      }
    });
  }
  return out;
}

/// gradient_scale() of each bag, computed once; none for a sum.
std::vector<float> gradient_scales(RowGradientArgs const& args) {
  std::vector<float> scales;
  if (args.pooling != Pooling::sum) {
    scales.resize(static_cast<std::size_t>(existing_bags(args.bags)));
    for_bags(args.bags, grain_of(sizeof(std::int64_t)), [&](std::int64_t begin, std::int64_t end) {
      for (auto bag = begin; bag < end; ++bag) {
        scales[static_cast<std::size_t>(bag)] =
            gradient_scale(args.bags, args.pooling, args.ids, args.rows, bag);
      }
    });
  }
  return scales;
}

template <class Columns>
void sum_places(RowGradientArgs const& args, Columns columns) {
  auto const scales = gradient_scales(args);
  auto const bags = bags_of_places(args.bags);
  auto const grain = grain_of(columns.count() * static_cast<std::int64_t>(sizeof(float)));
  parallel_rows(args.starts, *args.unique_count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto u = begin; u < end; ++u) {
      add_rows(columns, args.row_gradients + u * columns.count(), [&](auto add_row) {
        for (auto k = args.starts[u]; k < args.starts[u + 1]; ++k) {
          auto const place = args.positions[k];
          auto const bag =
              bags.empty() ? bag_of_place(args.bags, place) : bags[static_cast<std::size_t>(place)];
          add_row(args.output_gradient + bag * columns.count(),
                  scales.empty() ? 1.0F : scales[static_cast<std::size_t>(bag)]);
        }
        return 1.0F;
      });
    }
  });
}

template <class T>
void lookup(HostStream stream, LookupArgs const& args) {
  stream.run(
      [args] { with_columns(args.width, [&](auto columns) { pool_all_bags<T>(args, columns); }); });
}

}  // namespace

void embedding_lookup(HostStream stream, LookupArgs const& args) {
  switch (args.table_dtype) {
    case DType::float32:
      return lookup<float>(stream, args);
    case DType::float16:
      return lookup<float16>(stream, args);
    case DType::bfloat16:
      return lookup<bfloat16>(stream, args);
    default:
      require(false, "embedding_lookup: a table of ", name_of(args.table_dtype));
  }
}

std::size_t row_gradient_workspace_bytes(HostStream, BagLayout const&, std::int64_t) {
  return 0;
}

void embedding_row_gradients(HostStream stream, RowGradientArgs const& args) {
  stream.run(
      [args] { with_columns(args.width, [&](auto columns) { sum_places(args, columns); }); });
}

}  // namespace msstream::ops::kernels
