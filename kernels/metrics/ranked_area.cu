// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "ids/radix_sort.cuh"
#include "metrics/ranked_area.hpp"
#include "metrics/ranked_area_math.hpp"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <algorithm>
#include <bit>
#include <cstdint>

// Examples are sorted by their score or, if they are in groups, by group and score: the sort moves
// keys and places. Then the weights of both classes are summed up in this order, and each run of
// equal keys adds the pairs that it wins.
namespace msstream::ops::kernels {
namespace {

using Word = unsigned long long;
constexpr int kThreads = RankedAreaWorkspace::kThreads;
constexpr int kItems = RankedAreaWorkspace::kItems;
constexpr int kTileKeys = RankedAreaWorkspace::kTileKeys;
static_assert(kThreads == kKeyThreads);

__device__ void add_word(std::uint64_t* to, std::uint64_t value) {
  if (value != 0) {
    atomicAdd(reinterpret_cast<Word*>(to), static_cast<Word>(value));
  }
}

template <class Key>
__device__ Key key_of(RankedAreaArgs const& args, std::int64_t i) {
  auto const score = ordered_bits(args.scores[i]);
  if constexpr (sizeof(Key) == sizeof(std::uint64_t)) {
    return static_cast<Key>(args.groups[i]) << 32U | score;
  } else {
    return score;
  }
}

template <class Key>
__global__ void __launch_bounds__(kKeyThreads)
    make_keys_kernel(RankedAreaArgs const args, Digits const digits, Key* keys, unsigned* bins) {
  __shared__ DigitCounts<RankedAreaWorkspace::kMostPasses> counts;
  counts.clear(digits.passes);
  for (auto i = grid_thread(); i < args.count; i += grid_stride()) {
    auto const key = key_of<Key>(args, i);
    keys[i] = key;
    for (int pass = 0; pass < digits.passes; ++pass) {
      counts.count(pass, digits.of(key, pass));
    }
  }
  counts.add_to(bins, digits.passes);
}

__device__ ClassWeights weight_at(RankedAreaArgs const& args,
                                  unsigned const* places,
                                  std::int64_t i) {
  if (i >= args.count) {
    return {0, 0};
  }
  auto const place = places[i];
  auto const weight = counted_weight(args, place);
  return args.labels[place] != 0 ? ClassWeights{weight, 0} : ClassWeights{0, weight};
}

__global__ void __launch_bounds__(kThreads)
    tile_weights_kernel(RankedAreaArgs const args, unsigned const* places, std::uint64_t* totals) {
  using Reduce = cub::BlockReduce<Word, kThreads>;
  __shared__ typename Reduce::TempStorage shared[2];
  auto const begin = std::int64_t{blockIdx.x} * kTileKeys;
  Word positive = 0;
  Word negative = 0;
  for (int i = 0; i < kItems; ++i) {
    auto const own = weight_at(args, places, begin + i * kThreads + threadIdx.x);
    positive += own.positive;
    negative += own.negative;
  }
  positive = Reduce(shared[0]).Sum(positive);
  negative = Reduce(shared[1]).Sum(negative);
  if (threadIdx.x == 0) {
    totals[blockIdx.x] = positive;
    totals[gridDim.x + blockIdx.x] = negative;
  }
}

/// Returns to all threads the sum of the totals of the tiles before this one.
__device__ Word total_before(std::uint64_t const* totals) {
  using Reduce = cub::BlockReduce<Word, kThreads>;
  __shared__ typename Reduce::TempStorage shared;
  __shared__ Word before;
  Word sum = 0;
  for (unsigned tile = threadIdx.x; tile < blockIdx.x; tile += kThreads) {
    sum += totals[tile];
  }
  __syncthreads();  // an earlier call has read `before`
  sum = Reduce(shared).Sum(sum);
  if (threadIdx.x == 0) {
    before = sum;
  }
  __syncthreads();
  return before;
}

__global__ void __launch_bounds__(kThreads) weights_before_kernel(RankedAreaArgs const args,
                                                                  unsigned const* places,
                                                                  std::uint64_t const* totals,
                                                                  std::uint64_t* weights_before) {
  using Scan = cub::BlockScan<Word, kThreads>;
  __shared__ typename Scan::TempStorage shared[2];
  auto const begin = std::int64_t{blockIdx.x} * kTileKeys + threadIdx.x * kItems;
  Word weights[2][kItems];
  for (int i = 0; i < kItems; ++i) {
    auto const own = weight_at(args, places, begin + i);
    weights[0][i] = own.positive;
    weights[1][i] = own.negative;
  }
  for (int side = 0; side < 2; ++side) {
    auto const before = total_before(totals + std::int64_t{side} * gridDim.x);
    Scan(shared[side]).ExclusiveSum(weights[side], weights[side]);
    for (int i = 0; i < kItems; ++i) {
      // Place `count` gets the weight of all examples. It is in the last tile, or at the beginning
      // of a tile that does not exist.
      if (begin + i <= args.count) {
        weights_before[side * (args.count + 1) + begin + i] = before + weights[side][i];
      }
    }
    if (threadIdx.x + 1 == kThreads && begin + kItems == args.count) {
      auto const last = weight_at(args, places, args.count - 1);
      weights_before[side * (args.count + 1) + args.count] =
          before + weights[side][kItems - 1] + (side == 0 ? last.positive : last.negative);
    }
  }
}

/// Returns the first of the sorted keys [0, count) that is not below `key`.
template <class Key>
__device__ std::int64_t lower_bound(Key const* keys, std::int64_t count, Key key) {
  std::int64_t low = 0;
  while (low < count) {
    auto const middle = low + (count - low) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

/// Adds twice the pairs that the examples of one score win. The last example of a run of equal keys
/// adds for all.
template <class Key>
__global__ void __launch_bounds__(kThreads) add_won_kernel(RankedAreaArgs const args,
                                                           Key const* keys,
                                                           std::uint64_t const* positive_before,
                                                           std::uint64_t const* negative_before,
                                                           std::uint64_t* won) {
  constexpr bool kHasGroups = sizeof(Key) == sizeof(std::uint64_t);
  __shared__ std::uint64_t block[4];
  if (threadIdx.x < 4) {
    block[threadIdx.x] = 0;
  }
  __syncthreads();
  Word digits[4] = {0, 0, 0, 0};
  for (auto i = grid_thread(); i < args.count; i += grid_stride()) {
    auto const key = keys[i];
    if (i + 1 < args.count && keys[i + 1] == key) {
      continue;
    }
    auto const first = lower_bound(keys, i, key);
    Word const positive = positive_before[i + 1] - positive_before[first];
    Word const negatives = negative_before[first] + negative_before[i + 1];
    if constexpr (kHasGroups) {
      auto const group = key >> 32U;
      auto const of_others = negative_before[lower_bound(keys, i, group << 32U)];
      add_word(won + group, positive * (negatives - 2 * of_others));
    } else {
      Word const low = positive * negatives;
      Word const high = __umul64hi(positive, negatives);
      digits[0] += low & 0xFFFFFFFFU;
      digits[1] += low >> 32U;
      digits[2] += high & 0xFFFFFFFFU;
      digits[3] += high >> 32U;
    }
  }
  if constexpr (!kHasGroups) {
    for (int d = 0; d < 4; ++d) {
      for (int distance = 16; distance > 0; distance /= 2) {
        digits[d] += __shfl_xor_sync(kAllLanes, digits[d], distance);
      }
      if (threadIdx.x % 32 == 0) {
        add_word(block + d, digits[d]);
      }
    }
    __syncthreads();
    if (threadIdx.x < 4) {
      add_word(args.result + kTwiceWon + threadIdx.x, block[threadIdx.x]);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      args.result[kPositiveWeight] = positive_before[args.count];
      args.result[kNegativeWeight] = negative_before[args.count];
    }
  }
}

__global__ void __launch_bounds__(kThreads) add_groups_kernel(RankedAreaArgs const args,
                                                              std::uint64_t const* keys,
                                                              std::uint64_t const* positive_before,
                                                              std::uint64_t const* negative_before,
                                                              std::uint64_t const* won) {
  auto const groups = min(*args.group_count, args.count);
  for (auto group = grid_thread(); group < groups; group += grid_stride()) {
    auto const key = static_cast<std::uint64_t>(group) << 32U;
    auto const begin = lower_bound(keys, args.count, key);
    auto const end = lower_bound(keys, args.count, key + (std::uint64_t{1} << 32U));
    ClassWeights const weights{positive_before[end] - positive_before[begin],
                               negative_before[end] - negative_before[begin]};
    if (weights.positive == 0 || weights.negative == 0) {
      continue;
    }
    FixedSum term;
    term.add(group_term(won[group], weights));
    for (int d = 0; d < 3; ++d) {
      add_word(args.result + kGroupAreas + d, term.digits[d]);
    }
    add_word(args.result + kGroupExamples, weights.positive + weights.negative);
    add_word(args.result + kGroupsCounted, 1);
  }
}

template <class Key>
void rank(CudaStream stream, RankedAreaArgs const& args, RankedAreaWorkspace const& workspace) {
  constexpr bool kHasGroups = sizeof(Key) == sizeof(std::uint64_t);
  auto const count = args.count;
  // A group is below the number of examples.
  int const group_bits = kHasGroups ? std::bit_width(static_cast<std::uint64_t>(count - 1)) : 0;
  Digits const digits(32 + group_bits);
  auto const tiles = grid_for(count, kTileKeys);
  auto const blocks = std::min(kMostKeyBlocks, grid_for(count, kThreads));
  Key* const keys[2] = {reinterpret_cast<Key*>(workspace.keys[0]),
                        reinterpret_cast<Key*>(workspace.keys[1])};
  make_keys_kernel<Key><<<blocks, kKeyThreads, 0, stream>>>(args, digits, keys[0], workspace.bins);
  check_launch("ranked_area, keys");
  for (int p = 0; p < digits.passes; ++p) {
    int const from = p % 2;
    SortPass<Key, unsigned> const pass{keys[from],
                                       workspace.places[from],
                                       keys[1 - from],
                                       workspace.places[1 - from],
                                       count,
                                       digits,
                                       p,
                                       Key{0},
                                       workspace.bins + p * Digits::kBins,
                                       workspace.pass_counts[from],
                                       workspace.pass_counts[1 - from],
                                       workspace.next_tiles + p};
    if (p == 0) {
      sort_pass_kernel<Key, unsigned, kThreads, kItems, true, false>
          <<<tiles, kThreads, 0, stream>>>(pass);
    } else {
      sort_pass_kernel<Key, unsigned, kThreads, kItems, false, false>
          <<<tiles, kThreads, 0, stream>>>(pass);
    }
    check_launch("ranked_area, sort");
  }
  auto const* const sorted = keys[digits.passes % 2];
  auto const* const places = workspace.places[digits.passes % 2];
  tile_weights_kernel<<<tiles, kThreads, 0, stream>>>(args, places, workspace.tile_weights);
  check_launch("ranked_area, weights of tiles");
  auto* const positive = workspace.weights_before;
  weights_before_kernel<<<tiles, kThreads, 0, stream>>>(
      args, places, workspace.tile_weights, positive);
  check_launch("ranked_area, weights before");
  auto const* const negative = positive + count + 1;
  add_won_kernel<<<blocks, kThreads, 0, stream>>>(args, sorted, positive, negative, workspace.won);
  check_launch("ranked_area, pairs");
  if constexpr (kHasGroups) {
    add_groups_kernel<<<blocks, kThreads, 0, stream>>>(
        args, sorted, positive, negative, workspace.won);
    check_launch("ranked_area, groups");
  }
}

}  // namespace

void ranked_area(CudaStream stream, RankedAreaArgs const& args) {
  require_int32("ranked_area", args.count, "examples at most");
  bool const has_groups = args.groups != nullptr;
  RankedAreaWorkspace const workspace(args.workspace, args.count, has_groups);
  check_cuda(cudaMemsetAsync(workspace.zeros(args.workspace), 0, workspace.zero_bytes, stream),
             "cudaMemsetAsync");
  check_cuda(cudaMemsetAsync(args.result, 0, kRankedAreaWords * sizeof(std::uint64_t), stream),
             "cudaMemsetAsync");
  has_groups ? rank<std::uint64_t>(stream, args, workspace)
             : rank<std::uint32_t>(stream, args, workspace);
}

}  // namespace msstream::ops::kernels
