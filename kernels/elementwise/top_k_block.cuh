// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/top_k.hpp"
#include "elementwise/top_key.hpp"

#include <cub/block/block_scan.cuh>

#include <cstdint>

/// Finds the greatest elements of a row with one block. Going through their keys digit by digit,
/// the block finds a threshold that at least k keys reach but no more than the block can sort, and
/// then sorts the keys that reach the threshold (radix select: Alabi et al., Fast k-selection
/// algorithms for graphics processing units, 2012).
namespace msstream::ops::kernels {

inline constexpr unsigned kSortedKeys =
    1024;  ///< the most keys that a block sorts; more than kMostTop
inline constexpr int kDigitBits = 11;
inline constexpr unsigned kDigits = 1U << kDigitBits;

/// Calls each(key) for the calling thread's elements of a row, with eight loads in flight.
template <int Threads, class Each>
__device__ void for_each_key(float const* row, std::int64_t columns, Each const& each) {
  constexpr int kInFlight = 8;
  auto const count = static_cast<unsigned>(columns);
  for (unsigned first = threadIdx.x; first < count; first += Threads * kInFlight) {
    float values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      values[i] = first + i * Threads < count ? __ldg(row + first + i * Threads) : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * Threads < count) {
        each(top_key(values[i], first + i * Threads));
      }
    }
  }
}

template <int Threads>
struct ThresholdMemory {
  unsigned digits[kDigits];  ///< number of keys with each digit
  typename cub::BlockScan<unsigned, Threads>::TempStorage scan;
  unsigned digit;    ///< digit of the k-th greatest key
  unsigned above;    ///< number of keys with a greater digit
  unsigned with_it;  ///< number of keys whose digit is `digit`
};

/// Returns a threshold that at least k keys of the row reach, and at most kSortedKeys. All threads
/// of the block must call find_threshold(), and all get the result.
template <int Threads>
__device__ std::uint64_t find_threshold(float const* row,
                                        TopKArgs const& args,
                                        ThresholdMemory<Threads>& shared) {
  constexpr unsigned kPerThread = kDigits / Threads;
  std::uint64_t prefix = 0;  // first bits of the k-th greatest key
  std::uint64_t known = 0;   // mask of the bits in `prefix`
  // The number of keys with the prefix that remain to be found.
  auto wanted = static_cast<unsigned>(args.k);
  for (int shift = 64; shift > 0;) {
    int const bits = min(kDigitBits, shift);
    shift -= bits;
    for (unsigned digit = threadIdx.x; digit < kDigits; digit += Threads) {
      shared.digits[digit] = 0;
    }
    __syncthreads();
    // Equal digits one after the other are counted in a register first: in a row of one value, all
    // threads would increment one counter.
    unsigned last = 0;
    unsigned run = 0;
    for_each_key<Threads>(row, args.columns, [&](std::uint64_t key) {
      if ((key & known) == prefix) {
        auto const digit = static_cast<unsigned>(key >> shift) & ((1U << bits) - 1);
        if (digit != last && run > 0) {
          atomicAdd(&shared.digits[last], run);
          run = 0;
        }
        last = digit;
        ++run;
      }
    });
    if (run > 0) {
      atomicAdd(&shared.digits[last], run);
    }
    __syncthreads();
    // Each thread has a few neighbouring digits; the first thread has the greatest ones.
    auto const greatest = kDigits - 1 - threadIdx.x * kPerThread;
    unsigned sum = 0;
#pragma unroll
    for (unsigned i = 0; i < kPerThread; ++i) {
      sum += shared.digits[greatest - i];
    }
    unsigned above = 0;
    cub::BlockScan<unsigned, Threads>(shared.scan).ExclusiveSum(sum, above);
    if (above < wanted && wanted <= above + sum) {
      auto digit = greatest;
      while (above + shared.digits[digit] < wanted) {
        above += shared.digits[digit--];
      }
      shared.digit = digit;
      shared.above = above;
      shared.with_it = shared.digits[digit];
    }
    __syncthreads();
    prefix |= std::uint64_t{shared.digit} << shift;
    known |= std::uint64_t{(1U << bits) - 1} << shift;
    wanted -= shared.above;
    auto const reaching = static_cast<unsigned>(args.k) - wanted + shared.with_it;
    __syncthreads();  // all threads have read the values that the next digit overwrites
    if (reaching <= kSortedKeys) {
      break;
    }
  }
  return prefix;
}

/// Sorts keys, whose number must be a power of two, in descending order (Batcher, Sorting networks
/// and their applications, 1968).
template <int Threads>
__device__ void sort_descending(std::uint64_t* keys, unsigned count) {
  for (unsigned size = 2; size <= count; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (unsigned pair = threadIdx.x; pair < count / 2; pair += Threads) {
        unsigned const i = 2 * pair - (pair & (stride - 1));
        auto const first = keys[i];
        auto const second = keys[i + stride];
        bool const descends = (i & size) == 0;
        if ((first < second) == descends) {
          keys[i] = second;
          keys[i + stride] = first;
        }
      }
    }
  }
  __syncthreads();
}

template <int Threads>
__global__ void __launch_bounds__(Threads) top_k_by_block_kernel(TopKArgs args) {
  __shared__ std::uint64_t keys[kSortedKeys];
  __shared__ ThresholdMemory<Threads> shared;
  __shared__ unsigned held;
  auto const* const row = args.values + std::int64_t{blockIdx.x} * args.columns;
  auto const threshold = find_threshold<Threads>(row, args, shared);
  if (threadIdx.x == 0) {
    held = 0;
  }
  __syncthreads();
  for_each_key<Threads>(row, args.columns, [&](std::uint64_t key) {
    if (key >= threshold) {
      keys[atomicAdd(&held, 1U)] = key;  // in any order, because no two keys are equal
    }
  });
  __syncthreads();
  unsigned sorted = 1;
  while (sorted < held) {
    sorted *= 2;
  }
  for (unsigned i = held + threadIdx.x; i < sorted; i += Threads) {
    keys[i] = 0;
  }
  sort_descending<Threads>(keys, sorted);
  for (unsigned j = threadIdx.x; j < args.k; j += Threads) {
    auto const column = column_of(keys[j]);
    auto const place = std::int64_t{blockIdx.x} * args.k + j;
    args.top[place] = row[column];
    args.indices[place] = column;
  }
}

}  // namespace msstream::ops::kernels
