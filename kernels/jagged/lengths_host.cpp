// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "ids/bag_offsets.hpp"
#include "jagged/lengths.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

std::size_t lengths_to_offsets_workspace_bytes(HostStream, std::int64_t) {
  return 0;
}

void lengths_to_offsets(HostStream stream, LengthsToOffsetsArgs const& args) {
  stream.run([args] {
    auto const existing = existing_places(args.count, args.capacity);
    std::uint64_t offset = 0;  // unsigned: sums that overflow wrap, as on the device
    for (std::int64_t i = 0; i < args.capacity; ++i) {
      args.offsets[i] = static_cast<std::int64_t>(offset);
      auto const length = i < existing ? std::max<std::int64_t>(args.lengths.at(i), 0) : 0;
      offset += static_cast<std::uint64_t>(length);
    }
    args.offsets[args.capacity] = static_cast<std::int64_t>(offset);
  });
}

void offsets_to_lengths(HostStream stream, OffsetsToLengthsArgs const& args) {
  stream.run([args] {
    std::transform(args.offsets + 1,
                   args.offsets + args.count + 1,
                   args.offsets,
                   args.lengths,
                   [](std::int64_t end, std::int64_t begin) { return length_between(begin, end); });
  });
}

}  // namespace msstream::ops::kernels
