// SPDX-License-Identifier: Apache-2.0
#include "embedding/table_row.hpp"
#include "ids/bag_report_host.hpp"

namespace msstream::ops::kernels {

void table_rows(HostStream stream, TableRowsArgs const& args) {
  require_table_rows(args);
  stream.run([args] {
    auto const bags = IdBags<std::int64_t>(args.bags).looked_at();
    auto const places = bags.existing_places();
    std::uint64_t out_of_range = 0;
    for (auto place = places.begin; place < places.end; ++place) {
      auto const found = table_row_of(args, bags, place);
      args.rows[place] = found.row;
      if (!found.is_valid && out_of_range++ == 0) {
        spring_trap(args.report, {-1, found.id, found.table + 1, found.rows_of_table});
      }
    }
    for (std::int64_t bag = 0; bag < bags.existing(); ++bag) {
      if (bags.is_bad(bag) && out_of_range++ == 0) {
        spring_trap(args.report, bags.bag_offsets(), bag);
      }
    }
    count_out_of_range(args.report, out_of_range);
  });
}

}  // namespace msstream::ops::kernels
