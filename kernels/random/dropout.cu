// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "random/dropout.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

namespace {

__global__ void set_random_kernel(RandomState value, RandomState* state) {
  *state = value;
}

__global__ void advance_random_kernel(RandomState* state) {
  ++state->step;
}

/// Each thread has the four columns of one Philox block of one sample. `Index` holds the number of
/// all blocks, and is 32 bits wide if possible, because a division of 64 bits takes as long as the
/// random numbers.
template <class T, class Index, bool kQuads>
__global__ void __launch_bounds__(kBlockThreads)
    dropout_kernel(__grid_constant__ DropoutArgs const args, Index blocks_a_sample, Index blocks) {
  auto const state = *args.state;
  if (args.drawn != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    *args.drawn = state;
  }
  auto const thread = static_cast<Index>(grid_thread());
  if (thread >= blocks) {
    return;
  }
  auto const row = thread / blocks_a_sample;
  auto const block = thread - row * blocks_a_sample;
  auto const words = philox(dropout_counter(static_cast<std::int64_t>(block),
                                            args.first_sample + static_cast<std::int64_t>(row),
                                            state.step),
                            philox_key(state.seed, args.stream));
  auto const kept = [&](int k, T value) {
    return narrowed<T>(words.at[k] >= args.threshold ? __fmul_rn(widen(value), args.scale) : 0.0F);
  };
  auto const* const input = static_cast<T const*>(args.input);
  auto* const output = static_cast<T*>(args.output);
  auto const first = static_cast<std::int64_t>(row) * args.columns + 4 * std::int64_t{block};
  if constexpr (kQuads) {
    auto quad = *reinterpret_cast<Pack<T, 4> const*>(input + first);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      quad.lanes[k] = kept(k, quad.lanes[k]);
    }
    *reinterpret_cast<Pack<T, 4>*>(output + first) = quad;
  } else {
    auto const exist = args.columns - 4 * std::int64_t{block};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k < exist) {
        output[first + k] = kept(k, input[first + k]);
      }
    }
  }
}

template <class T, class Index>
void launch_dropout(CudaStream stream,
                    DropoutArgs const& args,
                    std::int64_t blocks_a_sample,
                    std::int64_t blocks) {
  auto const fits = [](void const* array) {
    return reinterpret_cast<std::uintptr_t>(array) % alignof(Pack<T, 4>) == 0;
  };
  bool const quads = args.columns % 4 == 0 && fits(args.input) && fits(args.output);
  auto* const kernel = quads ? dropout_kernel<T, Index, true> : dropout_kernel<T, Index, false>;
  // One block even without elements, which stores the state.
  auto const grid = std::max(grid_for(blocks, kBlockThreads), 1U);
  kernel<<<grid, kBlockThreads, 0, stream>>>(
      args,
      static_cast<Index>(std::max<std::int64_t>(blocks_a_sample, 1)),
      static_cast<Index>(blocks));
  check_launch("dropout");
}

}  // namespace

void set_random(CudaStream stream, RandomState const& value, RandomState* state) {
  set_random_kernel<<<1, 1, 0, stream>>>(value, state);
  check_launch("set_random");
}

void advance_random(CudaStream stream, RandomState* state) {
  advance_random_kernel<<<1, 1, 0, stream>>>(state);
  check_launch("advance_random");
}

void dropout(CudaStream stream, DropoutArgs const& args) {
  auto const blocks_a_sample = ceil_div<std::int64_t>(args.columns, 4);
  auto const blocks = args.samples * blocks_a_sample;
  if (blocks == 0 && args.drawn == nullptr) {
    return;
  }
  with_real_type("dropout: a tensor", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    // The last threads of the grid must not wrap around.
    if (blocks < std::numeric_limits<std::int32_t>::max()) {
      launch_dropout<T, std::uint32_t>(stream, args, blocks_a_sample, blocks);
    } else {
      launch_dropout<T, std::int64_t>(stream, args, blocks_a_sample, blocks);
    }
  });
}

}  // namespace msstream::ops::kernels
