// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ids/deduplicate.hpp"
#include "ids/deduplicate_keys.cuh"

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include <cstdint>

namespace msstream::ops::kernels {

/// Does the whole deduplication of ids in one block, because the time of small batches is the time
/// of launches, not of work. Thread t sorts the positions [t * Items, (t + 1) * Items). The radix
/// sort keeps the order of equal keys.
template <class Key, class Id, int Threads, int Items>
__global__ void __launch_bounds__(Threads)
    deduplicate_block_kernel(DeduplicateArgs const args, IdBags<Id> const bags, int key_bits) {
  using Sort = cub::BlockRadixSort<Key, Threads, Items, unsigned>;
  using Scan = cub::BlockScan<unsigned, Threads>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
  } shared;
  __shared__ Key last_keys[Threads];

  auto const places = place_capacity(args.bags);
  unsigned const thread = threadIdx.x;
  bool may_have_bad_bags = args.pools && bags.offsets != nullptr;
  // With more than 16 bags per thread, a check of all offsets takes longer than a search for the
  // bag of each position.
  if (may_have_bad_bags && bags.existing() <= std::int64_t{16} * Threads) {
    bool const ascend = ascend_in_steps(bags.bag_offsets(), thread, Threads);
    may_have_bad_bags = __syncthreads_or(ascend ? 0 : 1) != 0;
  }
  PlaceKeys<Key, Id> const place_keys(bags, args.rows, places, may_have_bad_bags);
  auto const rows = static_cast<Key>(args.rows);
  unsigned const first = thread * Items;
  Key keys[Items];
  unsigned positions[Items];
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    positions[k] = first + k;
    keys[k] = place_keys.of_place(positions[k], place_keys.id_at(positions[k]));
  }
  Sort(shared.sort).Sort(keys, positions, 0, key_bits);
  last_keys[thread] = keys[Items - 1];
  __syncthreads();

  // Valid keys are sorted before all others, so the rank of a valid key is also its index in
  // `args.positions`.
  Key previous = thread > 0 ? last_keys[thread - 1] : rows;
  bool is_first[Items];
  unsigned firsts = 0;
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    is_first[k] = keys[k] != rows && keys[k] != previous;
    firsts += is_first[k] ? 1 : 0;
    previous = keys[k];
  }
  unsigned unique = 0;
  unsigned uniques = 0;
  Scan(shared.scan).ExclusiveSum(firsts, unique, uniques);

  previous = thread > 0 ? last_keys[thread - 1] : Key{0};
  bool previous_is_valid = thread == 0 || previous != rows;
  auto const existing_rank = [&](unsigned rank) { return rank < places; };
#pragma unroll
  for (int k = 0; k < Items; ++k) {
    unsigned const rank = first + k;
    bool const is_valid = keys[k] != rows;
    if (is_first[k]) {
      args.unique_ids[unique] = static_cast<std::int64_t>(keys[k]);
      args.starts[unique] = static_cast<std::int32_t>(rank);
      ++unique;
    }
    if (existing_rank(rank)) {
      args.ranks[rank] = is_valid ? static_cast<std::int32_t>(unique) - 1 : -1;
    }
    if (is_valid) {
      args.positions[rank] = static_cast<std::int32_t>(positions[k]);
    } else if (previous_is_valid) {
      args.starts[uniques] = static_cast<std::int32_t>(rank);
    }
    previous_is_valid = is_valid;
  }
  if (thread == Threads - 1 && previous_is_valid) {
    args.starts[uniques] = Threads * Items;
  }
  if (thread == 0) {
    *args.unique_count = uniques;
  }
}

}  // namespace msstream::ops::kernels
