// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "column_count_host.hpp"

#include <msstream/ops/kernels/embedding_gradient.hpp>

#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// gradient_scale() of each bag, computed once; none for a sum.
std::vector<float> gradient_scales(RowGradientArgs const& args) {
  std::vector<float> scales;
  if (args.pooling != Pooling::sum) {
    auto const bags = existing_bags(args.bags);
    scales.reserve(static_cast<std::size_t>(bags));
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      scales.push_back(gradient_scale(args.bags, args.pooling, args.ids, args.rows, bag));
    }
  }
  return scales;
}

template <class Columns>
void sum_places(RowGradientArgs const& args, Columns columns) {
  auto const uniques = *args.unique_count;
  auto const scales = gradient_scales(args);
  for (std::int64_t u = 0; u < uniques; ++u) {
    add_rows(columns, args.row_gradients + u * columns.count(), [&](auto add_row) {
      for (auto k = args.starts[u]; k < args.starts[u + 1]; ++k) {
        auto const bag = bag_of_place(args.bags, args.positions[k]);
        add_row(args.output_gradient + bag * columns.count(),
                scales.empty() ? 1.0F : scales[static_cast<std::size_t>(bag)]);
      }
      return 1.0F;
    });
  }
}

}  // namespace

std::size_t row_gradient_workspace_bytes(HostStream, BagLayout const&, std::int64_t) {
  return 0;
}

void embedding_row_gradients(HostStream stream, RowGradientArgs const& args) {
  stream.run(
      [args] { with_columns(args.width, [&](auto columns) { sum_places(args, columns); }); });
}

}  // namespace msstream::ops::kernels
