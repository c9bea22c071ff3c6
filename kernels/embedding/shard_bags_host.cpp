// SPDX-License-Identifier: Apache-2.0
#include "common/id_report_host.hpp"
#include "common/parallel_rows_host.hpp"
#include "embedding/shard_bags.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kGrainOfBags = 4096;

void report_bad_bag(SentBagsArgs const& args, std::int64_t number) {
  auto const& offsets = args.bags.offsets;
  count_out_of_range(args.report, 1);
  spring_trap(args.report,
              {number, offsets.at(number), offsets.at(number + 1), args.bags.capacity});
}

void send_bag(SentBagsArgs const& args, SentIds const& to, std::int64_t place) {
  auto const& slot = args.slots[place / args.most_bags];
  auto const& message = args.messages[slot.message];
  auto const bag = place % args.most_bags;
  auto const base = to.offsets[message.first_slot * args.most_bags];
  auto const begin = to.offsets[place] - base;
  auto const end = to.offsets[place + 1] - base;
  auto const header = message.slots * args.most_bags;
  auto* const numbers = to.messages + slot.message * to.stride;
  auto const number = place - message.first_slot * args.most_bags;
  auto const kept_end = std::min(end, message.capacity);
  if (number == 0) {
    numbers[0] = 0;
  }
  numbers[number + 1] = kept_end;
  if (number + 1 == header) {
    to.counts[slot.message] = header + 1 + kept_end;
  }
  if (begin == end) {
    return;
  }
  if (end > message.capacity) {
    spring_trap(args.overflow, {bag, begin, end, message.capacity});
  }
  auto const range = slot.default_id < 0 ? args.bags.places_of_length(slot, bag, end - begin)
                                         : args.bags.places_of(slot, bag);
  bool const takes_default = args.bags.takes_default(slot, range);
  auto* const weights =
      to.weights == nullptr ? nullptr : to.weights + slot.message * to.weight_stride;
  for (auto i = begin; i < kept_end; ++i) {
    auto const source = range.begin + i - begin;
    numbers[header + 1 + i] = takes_default ? slot.default_id : args.bags.ids.at(source);
    if (weights != nullptr) {
      weights[i] = takes_default ? 1.0F : args.bags.weights[source];
    }
  }
  std::uint64_t bad = 0;
  for (auto source = range.begin; slot.reports != 0 && source < range.end; ++source) {
    auto const id = args.bags.ids.at(source);
    if (!is_in_range(id, slot.rows) && bad++ == 0) {
      spring_trap(args.report, {-1, id, slot.table + 1, slot.rows});
    }
  }
  count_out_of_range(args.report, bad);
}

}  // namespace

void sent_lengths(HostStream stream, SentBagsArgs const& args, std::int64_t* lengths) {
  stream.run([args, lengths] {
    auto const existing = existing_places(args.bags.count, args.bags.bags);
    auto const places = args.slot_count * args.most_bags;
    parallel_ranges(places, kGrainOfBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto place = begin; place < end; ++place) {
        auto const& slot = args.slots[place / args.most_bags];
        auto const bag = place % args.most_bags;
        auto const number = slot.table * args.bags.bags + bag;
        if (bag < existing && slot.reports != 0 && args.bags.is_bad(number)) {
          report_bad_bag(args, number);
        }
        lengths[place] = bag < existing ? args.bags.sent_count(slot, bag) : 0;
      }
    });
  });
}

void sent_ids(HostStream stream, SentBagsArgs const& args, SentIds const& to) {
  stream.run([args, to] {
    for (std::int64_t m = 0; m < args.message_count; ++m) {
      if (args.messages[m].slots == 0) {
        to.counts[m] = 0;
      }
    }
    auto const places = args.slot_count * args.most_bags;
    parallel_ranges(places, kGrainOfBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto place = begin; place < end; ++place) {
        send_bag(args, to, place);
      }
    });
  });
}

void received_lengths(HostStream stream, ReceivedBagsArgs const& args, std::int64_t* lengths) {
  stream.run([args, lengths] {
    parallel_ranges(args.bags(), kGrainOfBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto bag = begin; bag < end; ++bag) {
        auto const range = args.places_of(bag);
        lengths[bag] = range.end - range.begin;
      }
    });
  });
}

void received_ids(HostStream stream,
                  ReceivedBagsArgs const& args,
                  std::int64_t const* offsets,
                  std::int64_t* ids,
                  float* weights) {
  stream.run([args, offsets, ids, weights] {
    parallel_ranges(args.bags(), kGrainOfBags, [&](std::int64_t begin, std::int64_t end) {
      for (auto bag = begin; bag < end; ++bag) {
        if (offsets[bag] == offsets[bag + 1]) {
          continue;
        }
        auto const length = offsets[bag + 1] - offsets[bag];
        auto const place = args.place_of(bag);
        auto const first = args.first_of(place, length);
        for (std::int64_t i = 0; i < length; ++i) {
          ids[offsets[bag] + i] = args.rows[place.slot].number_of(args.ids_of(place)[first + i]);
          if (weights != nullptr) {
            weights[offsets[bag] + i] = args.weights_of(place)[first + i];
          }
        }
      }
    });
  });
}

void bag_divisors(HostStream stream, BagDivisorsArgs const& args) {
  stream.run([args] {
    auto const& bags = args.bags;
    auto const existing = existing_places(bags.count, bags.bags);
    for (std::int64_t t = 0; t < args.table_count; ++t) {
      for (std::int64_t bag = 0; bag < bags.bags; ++bag) {
        args.divisors[t * bags.bags + bag] = bag < existing ? divisor_of_bag(args, t, bag) : 0.0F;
      }
    }
  });
}

}  // namespace msstream::ops::kernels
