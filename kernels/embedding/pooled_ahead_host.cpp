// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "embedding/pooled_ahead.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kGrainOfAheadBags = 4096;
constexpr std::int64_t kGrainOfPositions = std::int64_t{1} << 14U;

}  // namespace

void marked_rows(HostStream stream, MarkedRowsArgs const& args) {
  stream.run([args] {
    for (std::int64_t s = 0; s < args.bags.slots; ++s) {
      auto const places = args.bags.places_in(s);
      for (auto place = places.begin; place < places.end; ++place) {
        if (auto const row = args.bags.row_of(s, args.bags.ids[place]); row >= 0) {
          args.marks[row / kRowsOfMark] |= 1U << (row % kRowsOfMark);
        }
      }
    }
  });
}

void split_bags(HostStream stream, SplitBagsArgs const& args) {
  stream.run([args] {
    parallel_ranges(args.bags.bags(), kGrainOfAheadBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto bag = begin; bag < end; ++bag) {
        auto const slot = args.bags.slot_of(bag);
        auto const places = args.bags.places_of(bag);
        bool is_late = false;
        for (auto place = places.begin; place < places.end && !is_late; ++place) {
          is_late = args.is_marked(slot, place);
        }
        for (auto place = places.begin; place < places.end; ++place) {
          args.write_id(place, is_late);
        }
        args.write_length(bag, is_late);
      }
    });
  });
}

void packed_bags(HostStream stream, PackedBagsArgs const& args) {
  stream.run([args] {
    for (std::int64_t rank = 0; rank < args.ranks; ++rank) {
      args.write_count(rank);
    }
    auto const bags = args.slots * args.ranks * args.most_bags;
    parallel_ranges(bags, kGrainOfAheadBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        auto const number = i / args.most_bags / args.ranks;
        for (std::int32_t column = 0; column < args.blocks[number].width; ++column) {
          args.write_element(i / args.most_bags % args.ranks, number, i % args.most_bags, column);
        }
      }
    });
  });
}

void joined_argmax(HostStream stream, JoinedArgmaxArgs const& args) {
  stream.run([args] {
    parallel_ranges(args.count, kGrainOfPositions, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        args.late[i] = std::max(args.late[i], args.early[i]);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
