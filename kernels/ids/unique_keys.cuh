// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "ids/radix_sort.cuh"
#include "ids/unique.hpp"

#include <cub/block/block_reduce.cuh>

#include <bit>
#include <cstdint>

/// The first step of unique(): maps ids to unsigned keys of the same order, which are then sorted.
/// If keys are longer than 32 bits, only the bytes in which they differ are sorted.
namespace msstream::ops::kernels {

__device__ inline std::int64_t existing_ids(UniqueArgs const& args) {
  return existing_places(args.count, args.problem.capacity);
}

/// The mapping from ids to the unsigned keys by which they are sorted.
struct KeyCoding {
  int bits;            ///< bits of a key
  std::uint64_t flip;  ///< the sign bit of signed ids, otherwise 0
  std::uint64_t last;  ///< the greatest key
  bool last_is_no_id;  ///< whether the greatest key represents all ids that are left out
  std::int64_t below;  ///< if last_is_no_id: ids outside [0, below) are left out

  explicit KeyCoding(UniqueProblem const& problem)
      : bits(problem.below > 0 ? std::bit_width(static_cast<std::uint64_t>(problem.below))
             : problem.is_wide ? 64
                               : 32),
        flip(problem.below > 0 ? 0 : std::uint64_t{1} << (bits - 1)),
        last(problem.below > 0 ? static_cast<std::uint64_t>(problem.below)
                               : ~std::uint64_t{0} >> (64 - bits)),
        last_is_no_id(problem.below > 0),
        below(problem.below) {}

  /// Returns whether a key fits in 32 bits.
  [[nodiscard]] bool is_short() const { return bits <= 32; }

  __device__ std::uint64_t key_of(std::int64_t id) const {
    if (last_is_no_id) {
      return is_in_range(id, below) ? static_cast<std::uint64_t>(id) : last;
    }
    return (static_cast<std::uint64_t>(id) & last) ^ flip;
  }
  /// Returns the id that a key was made from. If ids have 32 bits, the upper half of the result is
  /// not sign-extended.
  __device__ std::int64_t id_of(std::uint64_t key) const {
    return static_cast<std::int64_t>(key ^ flip);
  }
  __device__ bool counts(std::uint64_t key) const { return !last_is_no_id || key != last; }
};

/// The bits that are 1 in at least one key, and the bits that are 0 in at least one key.
struct MetBits {
  unsigned long long set;
  unsigned long long clear;

  struct Join {
    __device__ MetBits operator()(MetBits a, MetBits b) const {
      return {a.set | b.set, a.clear | b.clear};
    }
  };
};

/// The bytes in which keys differ, at least one. Up to four such bytes are packed into a 32-bit
/// word that orders like the key and from which the key can be restored.
class VaryingBytes {
 public:
  explicit __device__ VaryingBytes(MetBits const& met) {
    auto varying = met.set & met.clear;
    varying = varying != 0 ? varying : 0xFF;
    auto const constant = met.set & ~varying;
    constant_[0] = static_cast<unsigned>(constant);
    constant_[1] = static_cast<unsigned>(constant >> 32U);
#pragma unroll
    for (unsigned byte = 0; byte < 8; ++byte) {
      bool const varies = (varying >> (8 * byte) & 0xFF) != 0;
      unsigned const half = byte / 4;
      restored_[half] |= (varies ? count_ : 4 + byte % 4) << (4 * (byte % 4));
      if (varies) {
        bytes_ |= byte << (4 * count_);
        ++count_;
      }
    }
  }

  [[nodiscard]] __device__ int count() const {
    return static_cast<int>(count_);
  }
  [[nodiscard]] __device__ bool fit_in_word() const {
    return count_ <= 4;
  }
  /// Returns the index in a key of the k-th varying byte.
  [[nodiscard]] __device__ int at(int k) const {
    return static_cast<int>(bytes_ >> (4 * k) & 0xF);
  }
  [[nodiscard]] __device__ unsigned packed(std::uint64_t key) const {
    return __byte_perm(
        static_cast<unsigned>(key), static_cast<unsigned>(key >> 32U), bytes_ & 0xFFFF);
  }
  [[nodiscard]] __device__ std::uint64_t restored(unsigned packed) const {
    std::uint64_t const high = __byte_perm(packed, constant_[1], restored_[1]);
    return high << 32U | __byte_perm(packed, constant_[0], restored_[0]);
  }

 private:
  unsigned count_ = 0;
  unsigned bytes_ = 0;  ///< four bits per varying byte: the byte's index in a key
  /// The selectors for __byte_perm() that restore a key from a word and constant_.
  unsigned restored_[2] = {0, 0};
  unsigned constant_[2];
};

/// Calls visit(position, key) for the keys of all ids. The threads of the grid share the ids.
/// Blocks must have kKeyThreads threads.
template <class Visit>
__device__ void for_each_key(UniqueArgs const& args, KeyCoding const& coding, Visit const& visit) {
  constexpr std::int64_t kTurn = kKeyThreads * kKeysInFlight;
  auto const existing = existing_ids(args);
  for (auto turn = blockIdx.x * kTurn; turn < existing; turn += gridDim.x * kTurn) {
    std::int64_t ids[kKeysInFlight];
#pragma unroll
    for (int k = 0; k < kKeysInFlight; ++k) {
      auto const place = turn + k * kKeyThreads + threadIdx.x;
      ids[k] = place < existing ? args.ids.at(place) : 0;
    }
#pragma unroll
    for (int k = 0; k < kKeysInFlight; ++k) {
      auto const place = turn + k * kKeyThreads + threadIdx.x;
      if (place < existing) {
        visit(place, coding.key_of(ids[k]));
      }
    }
  }
}

/// Finds the bits in which the keys of ids differ. `met` must be zero before the launch.
static __global__ void __launch_bounds__(kKeyThreads)
    meet_bits_kernel(UniqueArgs const args, KeyCoding const coding, MetBits* met) {
  using Reduce = cub::BlockReduce<MetBits, kKeyThreads>;
  __shared__ typename Reduce::TempStorage shared;
  MetBits mine{0, 0};
  for_each_key(args, coding, [&](std::int64_t, std::uint64_t key) {
    mine = MetBits::Join{}(mine, {key, ~key});
  });
  auto const of_block = Reduce(shared).Reduce(mine, MetBits::Join{});
  if (threadIdx.x == 0) {
    atomicOr(&met->set, of_block.set);
    atomicOr(&met->clear, of_block.clear);
  }
}

/// Writes the keys of ids if keys have at most 32 bits, and counts in `bins` [passes, 256], zero
/// before the launch, how often each digit occurs.
static __global__ void __launch_bounds__(kKeyThreads) make_short_keys_kernel(UniqueArgs const args,
                                                                             KeyCoding const coding,
                                                                             Digits digits,
                                                                             std::uint32_t* keys,
                                                                             unsigned* bins) {
  __shared__ DigitCounts<4> counts;
  counts.clear(digits.passes);
  for_each_key(args, coding, [&](std::int64_t place, std::uint64_t key) {
    auto const short_key = static_cast<std::uint32_t>(key);
    keys[place] = short_key;
    for (int pass = 0; pass < digits.passes; ++pass) {
      counts.count(pass, digits.of(short_key, pass));
    }
  });
  counts.add_to(bins, digits.passes);
}

/// Writes the keys of ids if keys are longer than 32 bits, and counts in `bins` [passes, 256], zero
/// before the launch, how often each digit occurs. The digits are the bytes in which keys differ;
/// if there are at most four, keys are packed into 32-bit words.
static __global__ void __launch_bounds__(kKeyThreads) make_long_keys_kernel(UniqueArgs const args,
                                                                            KeyCoding const coding,
                                                                            MetBits const* met,
                                                                            std::uint64_t* keys,
                                                                            unsigned* bins) {
  __shared__ DigitCounts<8> counts;
  VaryingBytes const bytes(*met);
  counts.clear(bytes.count());
  for_each_key(args, coding, [&](std::int64_t place, std::uint64_t key) {
    if (bytes.fit_in_word()) {
      reinterpret_cast<std::uint32_t*>(keys)[place] = bytes.packed(key);
    } else {
      keys[place] = key;
    }
    for (int k = 0; k < bytes.count(); ++k) {
      counts.count(k, static_cast<unsigned>(key >> (8 * bytes.at(k))) & 0xFF);
    }
  });
  counts.add_to(bins, bytes.count());
}

}  // namespace msstream::ops::kernels
