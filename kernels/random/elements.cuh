// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/philox.hpp"
#include "common/vector_map.cuh"
#include "random/fill_math.hpp"

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// Sets each of `elements` to random_element() of a word. `kIsNormal` must be args.is_normal.
/// Several Philox blocks at once share the constants and the loads of the arguments.
template <bool kIsNormal, int Count>
__device__ void random_elements(RandomFillArgs const& args,
                                std::uint32_t const (&words)[Count],
                                float (&elements)[Count]) {
  if constexpr (kIsNormal) {
    auto pending = quick_normal_elements(args, words, elements);
    // Registers have no indices: the one that is meant is found by comparing.
#pragma unroll 1
    for (; pending != 0; pending &= pending - 1) {
      int const next = __ffs(static_cast<int>(pending)) - 1;
      auto word = words[0];
#pragma unroll
      for (int k = 1; k < Count; ++k) {
        word = k == next ? words[k] : word;
      }
      float const element = random_element<true>(args, word);
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        elements[k] = k == next ? element : elements[k];
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      elements[k] = random_element<false>(args, words[k]);
    }
  }
}

/// The Philox blocks of a thread, which are kBlockThreads apart.
inline constexpr int kBlocksAThread = 2;

/// The words of a thread's Philox blocks.
struct ThreadWords {
  std::uint32_t at[4 * kBlocksAThread];

  __device__ void set(int block, PhiloxWords const& words) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      at[4 * block + k] = words.at[k];
    }
  }
  [[nodiscard]] __device__ PhiloxWords of_block(int block) const {
    return {{at[4 * block], at[4 * block + 1], at[4 * block + 2], at[4 * block + 3]}};
  }
};

/// Returns four elements, rounded to T.
template <class T>
__device__ Pack<T, 4> rounded_pack(float const* elements) {
  Pack<T, 4> pack;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    pack.lanes[k] = narrowed<T>(elements[k]);
  }
  return pack;
}

/// Stores the first `count` elements of a pack, or all: with one store if the address `is_aligned`
/// to the pack.
template <class T, int Lanes>
__device__ void store_pack(T* to, Pack<T, Lanes> const& pack, std::int64_t count, bool is_aligned) {
  if (is_aligned && count >= Lanes) {
    *reinterpret_cast<Pack<T, Lanes>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < Lanes; ++k) {
    if (k < count) {
      to[k] = pack.lanes[k];
    }
  }
}

/// Returns the calling thread's first Philox block.
template <class Index>
__device__ Index first_block_of_thread() {
  return static_cast<Index>(blockIdx.x) * (kBlocksAThread * kBlockThreads) + threadIdx.x;
}

/// Returns whether an address is aligned to a pack.
template <class T, int Lanes>
bool fits_pack(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(Pack<T, Lanes>) == 0;
}

/// Calls function(std::bool_constant<is_normal>{}).
template <class Function>
void with_distribution(bool is_normal, Function const& function) {
  if (is_normal) {
    function(std::true_type{});
  } else {
    function(std::false_type{});
  }
}

}  // namespace msstream::ops::kernels
