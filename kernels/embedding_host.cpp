// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "column_count_host.hpp"
#include "id_report_host.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/embedding.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

template <class T, class Columns>
void pool_bags(LookupArgs const& args, Columns columns) {
  auto const* const table = static_cast<T const*>(args.table);
  auto const bags = existing_bags(args.bags);
  std::uint64_t out_of_range = 0;
  for (std::int64_t bag = 0; bag < bags; ++bag) {
    auto const places = places_of_bag(args.bags, bag);
    std::int64_t valid = 0;
    add_rows(columns, args.output + bag * columns.count(), [&](auto add_row) {
      for (auto place = places.begin; place < places.end; ++place) {
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
  std::fill(
      args.output + bags * columns.count(), args.output + args.bags.bags * columns.count(), 0.0F);
  count_out_of_range(args.report, out_of_range);
}

template <class T>
void lookup(HostStream stream, LookupArgs const& args) {
  stream.run(
      [args] { with_columns(args.width, [&](auto columns) { pool_bags<T>(args, columns); }); });
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

}  // namespace msstream::ops::kernels
