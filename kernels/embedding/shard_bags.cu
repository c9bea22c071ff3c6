// SPDX-License-Identifier: Apache-2.0
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "embedding/shard_bags.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kShardThreads = 256;
constexpr int kLanesOfShardBag = 8;  ///< threads that copy the ids of one bag
constexpr std::int64_t kMostShardBlocks = 4096;

[[nodiscard]] unsigned shard_grid(std::int64_t bags, int threads_of_bag) {
  return static_cast<unsigned>(
      std::min(kMostShardBlocks, ceil_div<std::int64_t>(bags * threads_of_bag, kShardThreads)));
}

__global__ void __launch_bounds__(kShardThreads)
    sent_lengths_kernel(__grid_constant__ SentBagsArgs const args, std::int64_t* lengths) {
  auto const existing = existing_places(args.bags.count, args.bags.bags);
  for (auto place = grid_thread(); place < args.slot_count * args.most_bags;
       place += grid_stride()) {
    auto const slot = args.slots[place / args.most_bags];
    auto const bag = place % args.most_bags;
    if (bag >= existing) {
      lengths[place] = 0;
      continue;
    }
    auto const number = slot.table * args.bags.bags + bag;
    if (slot.reports != 0 && args.bags.is_bad(number)) {
      if (args.report.count != nullptr) {
        atomicAdd(reinterpret_cast<unsigned long long*>(args.report.count), 1ULL);
      }
      if (args.report.trap != nullptr) {
        auto const& offsets = args.bags.offsets;
        spring_trap(args.report,
                    Caught{number, offsets.at(number), offsets.at(number + 1), args.bags.capacity});
      }
    }
    lengths[place] = args.bags.sent_count(slot, bag);
  }
}

__global__ void __launch_bounds__(kShardThreads)
    sent_ids_kernel(__grid_constant__ SentBagsArgs const args, SentIds const to) {
  for (auto m = grid_thread(); m < args.message_count; m += grid_stride()) {
    if (args.messages[m].slots == 0) {
      to.counts[m] = 0;
    }
  }
  auto const lane = static_cast<int>(threadIdx.x) % kLanesOfShardBag;
  for (auto place = grid_thread() / kLanesOfShardBag; place < args.slot_count * args.most_bags;
       place += grid_stride() / kLanesOfShardBag) {
    auto const slot_number = place / args.most_bags;
    auto const bag = place - slot_number * args.most_bags;
    auto const slot = args.slots[slot_number];
    auto const message = args.messages[slot.message];
    auto const base = to.offsets[message.first_slot * args.most_bags];
    auto const begin = to.offsets[place] - base;
    auto const end = to.offsets[place + 1] - base;
    auto const header = message.slots * args.most_bags;
    auto* const numbers = to.messages + slot.message * to.stride;
    auto const number = place - message.first_slot * args.most_bags;
    auto const kept_end = end < message.capacity ? end : message.capacity;
    if (lane == 0) {
      if (number == 0) {
        numbers[0] = 0;
      }
      numbers[number + 1] = kept_end;
      if (number + 1 == header) {
        to.counts[slot.message] = header + 1 + kept_end;
      }
      if (end > message.capacity && begin < end && args.overflow.trap != nullptr) {
        spring_trap(args.overflow, Caught{bag, begin, end, message.capacity});
      }
    }
    if (begin == end) {
      continue;
    }
    auto const range = slot.default_id < 0 ? args.bags.places_of_length(slot, bag, end - begin)
                                           : args.bags.places_of(slot, bag);
    bool const takes_default = args.bags.takes_default(slot, range);
    for (auto i = begin + lane; i < kept_end; i += kLanesOfShardBag) {
      auto const from = range.begin + i - begin;
      numbers[header + 1 + i] = takes_default ? slot.default_id : args.bags.ids.at(from);
      if (to.weights != nullptr) {
        to.weights[slot.message * to.weight_stride + i] =
            takes_default ? 1.0F : args.bags.weights[from];
      }
    }
    for (auto from = range.begin + lane; slot.reports != 0 && from < range.end;
         from += kLanesOfShardBag) {
      auto const id = args.bags.ids.at(from);
      if (!is_in_range(id, slot.rows)) {
        if (args.report.count != nullptr) {
          atomicAdd(reinterpret_cast<unsigned long long*>(args.report.count), 1ULL);
        }
        if (args.report.trap != nullptr) {
          spring_trap(args.report, Caught{-1, id, slot.table + 1, slot.rows});
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kShardThreads)
    received_lengths_kernel(__grid_constant__ ReceivedBagsArgs const args, std::int64_t* lengths) {
  for (auto bag = grid_thread(); bag < args.bags(); bag += grid_stride()) {
    auto const range = args.places_of(bag);
    lengths[bag] = range.end - range.begin;
  }
}

__global__ void __launch_bounds__(kShardThreads)
    received_ids_kernel(__grid_constant__ ReceivedBagsArgs const args,
                        std::int64_t const* offsets,
                        std::int64_t* ids,
                        float* weights) {
  auto const lane = static_cast<int>(threadIdx.x) % kLanesOfShardBag;
  for (auto bag = grid_thread() / kLanesOfShardBag; bag < args.bags();
       bag += grid_stride() / kLanesOfShardBag) {
    auto const to = offsets[bag];
    auto const length = offsets[bag + 1] - to;
    if (length == 0) {
      continue;
    }
    auto const place = args.place_of(bag);
    auto const own = args.rows[place.slot];
    auto const first = args.first_of(place, length);
    auto const* const from = args.ids_of(place) + first;
    // Two ids a round, so that a lane that has both waits once.
    for (std::int64_t i = lane; i < length; i += 2 * kLanesOfShardBag) {
      auto const next = i + kLanesOfShardBag;
      bool const has_next = next < length;
      auto const id = from[i];
      auto const next_id = has_next ? from[next] : 0;
      ids[to + i] = own.number_of(id);
      if (has_next) {
        ids[to + next] = own.number_of(next_id);
      }
    }
    if (weights != nullptr) {
      auto const* const from_weights = args.weights_of(place) + first;
      for (std::int64_t i = lane; i < length; i += kLanesOfShardBag) {
        weights[to + i] = from_weights[i];
      }
    }
  }
}

__global__ void __launch_bounds__(kShardThreads)
    bag_divisors_kernel(__grid_constant__ BagDivisorsArgs const args) {
  auto const& bags = args.bags;
  auto const existing = existing_places(bags.count, bags.bags);
  for (auto i = grid_thread(); i < args.table_count * bags.bags; i += grid_stride()) {
    auto const bag = i % bags.bags;
    args.divisors[i] = bag < existing ? divisor_of_bag(args, i / bags.bags, bag) : 0.0F;
  }
}

}  // namespace

void sent_lengths(CudaStream stream, SentBagsArgs const& args, std::int64_t* lengths) {
  if (auto const bags = args.slot_count * args.most_bags; bags > 0) {
    sent_lengths_kernel<<<shard_grid(bags, 1), kShardThreads, 0, stream>>>(args, lengths);
    check_launch("sent_lengths");
  }
}

void sent_ids(CudaStream stream, SentBagsArgs const& args, SentIds const& to) {
  if (auto const bags = args.slot_count * args.most_bags; bags > 0) {
    sent_ids_kernel<<<shard_grid(bags, kLanesOfShardBag), kShardThreads, 0, stream>>>(args, to);
    check_launch("sent_ids");
  }
}

void received_lengths(CudaStream stream, ReceivedBagsArgs const& args, std::int64_t* lengths) {
  if (args.bags() > 0) {
    received_lengths_kernel<<<shard_grid(args.bags(), 1), kShardThreads, 0, stream>>>(args,
                                                                                      lengths);
    check_launch("received_lengths");
  }
}

void received_ids(CudaStream stream,
                  ReceivedBagsArgs const& args,
                  std::int64_t const* offsets,
                  std::int64_t* ids,
                  float* weights) {
  if (args.bags() > 0) {
    received_ids_kernel<<<shard_grid(args.bags(), kLanesOfShardBag), kShardThreads, 0, stream>>>(
        args, offsets, ids, weights);
    check_launch("received_ids");
  }
}

void bag_divisors(CudaStream stream, BagDivisorsArgs const& args) {
  if (auto const divisors = args.table_count * args.bags.bags; divisors > 0) {
    bag_divisors_kernel<<<shard_grid(divisors, 1), kShardThreads, 0, stream>>>(args);
    check_launch("bag_divisors");
  }
}

}  // namespace msstream::ops::kernels
