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
        SplitBagsArgs::Bag found;
        for (auto place = places.begin; place < places.end; ++place) {
          args.look_at(slot, place, found);
        }
        for (auto place = places.begin; place < places.end; ++place) {
          args.write_id(place, found);
        }
        args.write_counts(bag, found);
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
        auto const slot = i / args.most_bags / args.ranks;
        auto const rank = i / args.most_bags % args.ranks;
        auto const bag = i % args.most_bags;
        auto const number = slot * args.most_bags + bag;
        auto const place = args.place_of(rank, number);
        args.write_place(rank, number, place);
        auto const row = args.row_of(rank, slot, bag, place);
        if (row.to != nullptr) {
          std::copy_n(row.from, args.blocks[slot].width, row.to);
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
