// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "exchange/push_rows.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWordsAThread = 4;  ///< that a thread has in flight: writes to another GPU are slow

/// Copies words of the rows. Block (x, y) has part x of what goes to the rank that follows this one
/// by y, so that the ranks do not all begin with the same one.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    push_rows_kernel(__grid_constant__ PushRowsArgs const args) {
  auto const to = static_cast<int>((args.rank + blockIdx.y) % static_cast<unsigned>(args.ranks));
  auto const rows = min(max(args.counts[to], std::int64_t{0}), args.capacity);
  auto const words_of_rank = args.capacity * args.row_bytes / static_cast<int>(sizeof(Word));
  auto const words = rows * args.row_bytes / static_cast<int>(sizeof(Word));
  auto const* const from = reinterpret_cast<Word const*>(args.input) + to * words_of_rank;
  auto* const output = reinterpret_cast<Word*>(args.output[to]) + args.rank * words_of_rank;
  auto const stride = grid_stride();
  auto i = grid_thread();
  for (; i + (kWordsAThread - 1) * stride < words; i += kWordsAThread * stride) {
    Word own[kWordsAThread];
#pragma unroll
    for (int k = 0; k < kWordsAThread; ++k) {
      own[k] = from[i + k * stride];
    }
#pragma unroll
    for (int k = 0; k < kWordsAThread; ++k) {
      output[i + k * stride] = own[k];
    }
  }
  for (; i < words; i += stride) {
    output[i] = from[i];
  }
}

[[nodiscard]] bool have_words_of(PushRowsArgs const& args, std::uintptr_t bytes) {
  auto const fits = [=](std::byte const* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
  };
  return static_cast<std::uintptr_t>(args.row_bytes) % bytes == 0 && fits(args.input) &&
         std::all_of(args.output, args.output + args.ranks, fits);
}

template <class Word>
void launch(CudaStream stream, PushRowsArgs const& args) {
  auto const words = args.capacity * args.row_bytes / static_cast<std::int64_t>(sizeof(Word));
  auto const most = std::max(args.most_blocks / args.ranks, 1);
  auto const wanted = ceil_div<std::int64_t>(words, kThreads * kWordsAThread);
  dim3 const grid(static_cast<unsigned>(std::min<std::int64_t>(wanted, most)),
                  static_cast<unsigned>(args.ranks));
  push_rows_kernel<Word><<<grid, kThreads, 0, stream>>>(args);
  check_launch("push_rows");
}

}  // namespace

void push_rows(CudaStream stream, PushRowsArgs const& args) {
  if (args.capacity == 0 || args.row_bytes == 0) {
    return;
  }
  if (have_words_of(args, sizeof(uint4))) {
    launch<uint4>(stream, args);
  } else if (have_words_of(args, sizeof(std::uint32_t))) {
    launch<std::uint32_t>(stream, args);
  } else {
    launch<std::uint8_t>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
