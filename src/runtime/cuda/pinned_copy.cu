// SPDX-License-Identifier: Apache-2.0
#include "pinned_copy_cuda.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::detail {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 32;

/// Copies `bytes` bytes: the first `words` elements of type Word, then the remaining bytes one by
/// one.
template <class Word>
__global__ void copy_words(std::byte* to, std::byte const* from, unsigned words, unsigned bytes) {
  unsigned const first = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned const stride = gridDim.x * blockDim.x;
  for (unsigned i = first; i < words; i += stride) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<Word const*>(from)[i];
  }
  for (unsigned i = words * sizeof(Word) + first; i < bytes; i += stride) {
    to[i] = from[i];
  }
}

template <class Word>
bool copied(void* to, void const* from, std::size_t bytes, cudaStream_t stream) {
  auto const either = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (either % sizeof(Word) != 0) {
    return false;
  }
  std::size_t const words = bytes / sizeof(Word);
  std::size_t const blocks = std::clamp<std::size_t>(words / kThreads, 1, kMostBlocks);
  copy_words<Word>
      <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(static_cast<std::byte*>(to),
                                                               static_cast<std::byte const*>(from),
                                                               static_cast<unsigned>(words),
                                                               static_cast<unsigned>(bytes));
  return true;
}

}  // namespace

cudaError_t copy_by_kernel(void* to, void const* from, std::size_t bytes, cudaStream_t stream) {
  static_cast<void>(copied<uint4>(to, from, bytes, stream) ||
                    copied<std::uint32_t>(to, from, bytes, stream) ||
                    copied<std::byte>(to, from, bytes, stream));
  return cudaPeekAtLastError();
}

}  // namespace msstream::detail
