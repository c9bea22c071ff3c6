// SPDX-License-Identifier: Apache-2.0
#include "exchange/push_rows.hpp"

#include <algorithm>
#include <cstring>

namespace msstream::ops::kernels {

void push_rows(HostStream stream, PushRowsArgs const& args) {
  stream.run([args] {
    for (int to = 0; to < args.ranks; ++to) {
      auto const rows = std::clamp<std::int64_t>(args.counts[to], 0, args.capacity);
      if (rows > 0) {
        auto const bytes_of_rank = args.capacity * args.row_bytes;
        std::memcpy(args.output[to] + args.rank * bytes_of_rank,
                    args.input + to * bytes_of_rank,
                    static_cast<std::size_t>(rows * args.row_bytes));
      }
    }
  });
}

}  // namespace msstream::ops::kernels
