// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/kernels/row_parts.hpp>

namespace msstream::ops::kernels {

void merge_ids(HostStream stream, MergeIdsArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.capacity; ++i) {
      args.merged[i] = i < *args.count ? args.ids[i] : -1;
    }
  });
}

}  // namespace msstream::ops::kernels
