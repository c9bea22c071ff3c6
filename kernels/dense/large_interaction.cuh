// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "dense/interaction.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

/// Dot interactions of samples whose vectors do not fit in shared memory, and of samples without
/// pairs. T is float32, float16 or bfloat16; sums are float32.
namespace msstream::ops::kernels {

namespace detail {

/// Returns vector `vector` of a sample.
template <class Args>
__device__ auto const* vector_of(Args const& args, std::int64_t sample, std::int64_t vector) {
  return vector == 0 ? args.dense + sample * args.width
                     : args.embeddings + (sample * args.features + vector - 1) * args.width;
}

/// Computes the outputs, one element per thread.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    large_interaction_kernel(__grid_constant__ InteractionArgsOf<T> const args) {
  auto const output_width = args.width + pairs_of(args.features + 1);
  for (auto at = grid_thread(); at < args.batch * output_width; at += grid_stride()) {
    auto const sample = at / output_width;
    auto const element = at - sample * output_width;
    if (element < args.width) {
      args.output[at] = vector_of(args, sample, 0)[element];
      continue;
    }
    auto const pair = element - args.width;
    auto i = static_cast<std::int64_t>((sqrt(8.0 * static_cast<double>(pair) + 1.0) + 1.0) * 0.5);
    i += pairs_of(i + 1) <= pair ? 1 : 0;
    i -= pairs_of(i) > pair ? 1 : 0;
    auto const* const left = vector_of(args, sample, i);
    auto const* const right = vector_of(args, sample, pair - pairs_of(i));
    float sum = 0.0F;
    for (std::int64_t begin = 0; begin < args.width; begin += kColumnsOfPart) {
      auto const end = min(begin + kColumnsOfPart, args.width);
      float part = 0.0F;
      for (auto column = begin; column < end; ++column) {
        part = fmaf(widen(left[column]), widen(right[column]), part);
      }
      sum += part;
    }
    args.output[at] = narrowed<T>(sum);
  }
}

/// Computes the gradients, one element per thread.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    large_interaction_gradient_kernel(__grid_constant__ InteractionGradientArgsOf<T> const args) {
  auto const vectors = args.features + 1;
  auto const sample_width = vectors * args.width;
  auto const output_width = args.width + pairs_of(vectors);
  for (auto at = grid_thread(); at < args.batch * sample_width; at += grid_stride()) {
    auto const sample = at / sample_width;
    auto const vector = (at - sample * sample_width) / args.width;
    auto const column = at - sample * sample_width - vector * args.width;
    T* const to = vector == 0 ? args.dense_gradient : args.embeddings_gradient;
    if (to == nullptr) {
      continue;
    }
    auto const* const gradient = args.output_gradient + sample * output_width;
    float sum = 0.0F;
    for (std::int64_t begin = 0; begin < vectors; begin += kColumnsOfPart) {
      auto const end = min(begin + kColumnsOfPart, vectors);
      float part = 0.0F;
      for (auto other = begin; other < end; ++other) {
        if (other != vector) {
          auto const pair =
              vector > other ? pair_number(vector, other) : pair_number(other, vector);
          part = fmaf(widen(gradient[args.width + pair]),
                      widen(vector_of(args, sample, other)[column]),
                      part);
        }
      }
      sum += part;
    }
    if (vector == 0) {
      to[sample * args.width + column] = narrowed<T>(sum + widen(gradient[column]));
    } else {
      to[(sample * args.features + vector - 1) * args.width + column] = narrowed<T>(sum);
    }
  }
}

/// Returns the number of blocks of a grid-stride loop over `items` elements.
inline unsigned blocks_of_loop(std::int64_t items) {
  constexpr std::int64_t kMostBlocks = 1 << 16;
  return static_cast<unsigned>(std::min(ceil_div<std::int64_t>(items, kBlockThreads), kMostBlocks));
}

}  // namespace detail

/// Computes dot_interaction() of samples of any size. The batch and the output's width must not be
/// 0.
template <class T>
void large_interaction(CudaStream stream, InteractionArgsOf<T> const& args) {
  auto const outputs = args.batch * (args.width + pairs_of(args.features + 1));
  detail::large_interaction_kernel<<<detail::blocks_of_loop(outputs), kBlockThreads, 0, stream>>>(
      args);
  check_launch("dot_interaction");
}

/// Computes dot_interaction_gradient() of samples of any size. The batch and the width must not be
/// 0.
template <class T>
void large_interaction_gradient(CudaStream stream, InteractionGradientArgsOf<T> const& args) {
  auto const items = args.batch * (args.features + 1) * args.width;
  detail::large_interaction_gradient_kernel<<<detail::blocks_of_loop(items),
                                              kBlockThreads,
                                              0,
                                              stream>>>(args);
  check_launch("dot_interaction_gradient");
}

}  // namespace msstream::ops::kernels
