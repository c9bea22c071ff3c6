// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/row_parts.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

void merge_rows(HostStream stream, MergeRowsArgs const& args) {
  if (args.capacity == 0) {
    return;
  }
  stream.run([args] {
    std::int64_t const existing = std::clamp(*args.count, std::int64_t{0}, args.capacity);
    std::transform(args.ids, args.ids + existing, args.merged_ids, [&](std::int64_t id) {
      return id + args.first_row;
    });
    std::fill(args.merged_ids + existing, args.merged_ids + args.capacity, -1);
    std::copy_n(args.values, existing * args.width, args.merged_values);
  });
}

}  // namespace msstream::ops::kernels
