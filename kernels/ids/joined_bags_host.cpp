// SPDX-License-Identifier: Apache-2.0
#include "common/id_report_host.hpp"
#include "ids/joined_bags.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

void joined_lengths(HostStream stream, JoinedBagsArgs const& args, std::int64_t* lengths) {
  stream.run([args, lengths] {
    auto const existing = existing_places(args.count, args.batch);
    for (int p = 0; p < args.pieces; ++p) {
      auto const& piece = args.at[p];
      for (std::int64_t bag = 0; bag < args.batch; ++bag) {
        bool const is_bad = bag < existing && piece.is_bad(bag, args.batch);
        if (is_bad) {
          count_out_of_range(args.report, 1);
          spring_trap(args.report,
                      {args.first_bag + p * args.batch + bag,
                       piece.offsets.at(bag),
                       piece.offsets.at(bag + 1),
                       piece.capacity});
        }
        lengths[p * args.batch + bag] = is_bad || bag >= existing ? 0 : piece.length_of(bag);
      }
    }
  });
}

void joined_ids(HostStream stream, JoinedBagsArgs const& args, JoinedPlaces const& places) {
  stream.run([args, places] {
    for (int p = 0; p < args.pieces; ++p) {
      auto const& piece = args.at[p];
      auto const* const offsets = places.offsets + p * args.batch;
      for (std::int64_t bag = 0; bag < args.batch; ++bag) {
        if (offsets[bag] == offsets[bag + 1]) {
          continue;
        }
        auto from = piece.begin_of(bag);
        for (auto to = offsets[bag]; to < offsets[bag + 1]; ++to, ++from) {
          places.ids[to] = piece.ids.at(from);
          if (places.weights != nullptr) {
            places.weights[to] = piece.weights != nullptr ? piece.weights[from] : 1.0F;
          }
        }
      }
    }
  });
}

}  // namespace msstream::ops::kernels
