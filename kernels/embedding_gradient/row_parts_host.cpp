// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/row_parts.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

void merge_rows(HostStream stream, MergeRowsArgs args) {
  if (args.capacity == 0 && args.merged_count == nullptr) {
    return;
  }
  args.stride = args.stride != 0 ? args.stride : args.width;
  stream.run([args] {
    auto const begin = args.begin != nullptr ? *args.begin : 0;
    auto const rows = std::clamp(*args.end - begin, std::int64_t{0}, args.capacity);
    auto const* const ids = rows > 0 ? args.ids + begin : args.ids;
    std::transform(
        ids, ids + rows, args.merged_ids, [&](std::int64_t id) { return id + args.first_row; });
    std::fill(args.merged_ids + rows, args.merged_ids + args.capacity, -1);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(args.values + (begin + row) * args.stride,
                  args.width,
                  args.merged_values + row * args.width);
    }
    if (args.merged_count != nullptr) {
      *args.merged_count = rows;
    }
  });
}

}  // namespace msstream::ops::kernels
