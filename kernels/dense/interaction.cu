// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "dense/interaction.hpp"
#include "dense/large_interaction.cuh"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

// The kernels keep the vectors of several samples in shared memory, so that each input is read once
// from global memory. A thread computes a tile of 4 x 4 results in registers, for which it reads 8
// numbers per column instead of 32.

constexpr int kTile = 4;
/// The most shared memory of a block that needs no permission, in floats.
constexpr std::int64_t kMostSharedFloats = 48 * 1024 / 4;
/// The shared memory of a block up to which it takes further samples, in floats: with it a
/// multiprocessor holds 7 blocks.
constexpr std::int64_t kWantedSharedFloats = 32 * 1024 / 4;
constexpr int kForwardThreads = 128;
constexpr int kFewForwardThreads = 64;
constexpr int kBackwardThreads = 256;

/// The vectors of a sample in shared memory: rows of `stride` floats. The stride is an odd number
/// of Quads, so that eight consecutive rows are in different banks.
struct VectorLayout {
  int vectors;
  int width;
  int quads;   ///< per row, rounded up; the columns beyond the width are 0
  int stride;  ///< floats
};
VectorLayout layout_of(std::int64_t features, std::int64_t width) {
  int const quads = static_cast<int>(ceil_div<std::int64_t>(width, kTile));
  return {static_cast<int>(features + 1), static_cast<int>(width), quads, (quads | 1) * kTile};
}

/// Returns whether a row of the vectors, and so every size below, is small enough for an int.
bool sizes_are_small(std::int64_t features, std::int64_t width) {
  return features < kMostSharedFloats && width < kMostSharedFloats;
}

__device__ Quad const& quad_at(float const* floats) {
  return *reinterpret_cast<Quad const*>(floats);
}

/// Begins to copy the vectors of `samples` samples from `first` on into shared memory,
/// `sample_floats` apart; wait_for_copies() ends it. The copies take no registers, so that all of a
/// block's are in flight at once. A vector is loaded by a group of lanes, whose number is a power
/// of two. `kQuads` tells that rows of both inputs are whole Quads.
template <bool kQuads>
__device__ void copy_vectors(float* shared,
                             VectorLayout const& layout,
                             int sample_floats,
                             float const* dense,
                             float const* embeddings,
                             std::int64_t first,
                             int samples) {
  int const columns = kQuads ? layout.quads : layout.quads * kTile;
  int const log2_lanes = columns <= 1 ? 0 : min(32 - __clz(columns - 1), 5);
  int const lane = static_cast<int>(threadIdx.x) & ((1 << log2_lanes) - 1);
  int const rows_at_once = static_cast<int>(blockDim.x) >> log2_lanes;
  for (int row = static_cast<int>(threadIdx.x) >> log2_lanes; row < samples * layout.vectors;
       row += rows_at_once) {
    int const sample = row / layout.vectors;
    int const vector = row - sample * layout.vectors;
    auto const number = first + sample;
    auto const* const from =
        vector == 0 ? dense + number * layout.width
                    : embeddings + (number * (layout.vectors - 1) + vector - 1) * layout.width;
    auto* const to = shared + sample * sample_floats + vector * layout.stride;
    for (int column = lane; column < columns; column += 1 << log2_lanes) {
      if constexpr (kQuads) {
        __pipeline_memcpy_async(to + column * kTile, from + column * kTile, sizeof(Quad));
      } else if (column < layout.width) {
        __pipeline_memcpy_async(to + column, from + column, sizeof(float));
      } else {
        to[column] = 0.0F;
      }
    }
  }
}

/// Waits until all threads' copies into shared memory have ended.
__device__ inline void wait_for_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// Calls each(row, lane's column) for all columns of `rows` rows; a warp takes a row.
template <class Each>
__device__ void for_each_by_warps(int rows, int columns, Each const& each) {
  int const warps = static_cast<int>(blockDim.x) / 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < rows; row += warps) {
    for (int column = static_cast<int>(threadIdx.x) % 32; column < columns; column += 32) {
      each(row, column);
    }
  }
}

/// Computes the dot products. The vectors are dealt to `classes` classes, vector v to class v mod
/// classes; a class has at most four. A thread has all pairs of two classes, or of one.
///
///   block: samples [first, first + samples), each with the vectors, then the products in its part
///          of the shared memory
///   thread: tile (x, y) of a sample, x >= y: vectors x + classes a and y + classes b, a, b < 4
template <bool kQuads>
__global__ void __launch_bounds__(kForwardThreads)
    interaction_kernel(__grid_constant__ InteractionArgs const args,
                       VectorLayout layout,
                       int samples_a_block,
                       int sample_floats) {
  extern __shared__ Quad shared_quads[];
  auto* const shared = reinterpret_cast<float*>(shared_quads);
  auto const first = static_cast<std::int64_t>(blockIdx.x) * samples_a_block;
  int const samples = static_cast<int>(min(std::int64_t{samples_a_block}, args.batch - first));
  int const classes = (layout.vectors + kTile - 1) / kTile;
  int const tiles = classes * (classes + 1) / 2;
  int const pairs = static_cast<int>(pairs_of(layout.vectors));
  std::int64_t const output_width = layout.width + pairs;
  copy_vectors<kQuads>(shared, layout, sample_floats, args.dense, args.embeddings, first, samples);
  wait_for_copies();
  for_each_by_warps(samples, layout.width, [&](int sample, int column) {
    args.output[(first + sample) * output_width + column] = shared[sample * sample_floats + column];
  });
  // The host gives a block at most as many samples as one round of tiles allows, or one sample.
  // Products of a later round go to global memory at once; those of the only round through shared
  // memory, where they lie in order.
  int const threads = static_cast<int>(blockDim.x);
  bool const one_round = samples_a_block * tiles <= threads;
  for (int round = 0; round < samples * tiles; round += threads) {
    int const unit = round + static_cast<int>(threadIdx.x);
    bool const exists = unit < samples * tiles;
    int const sample = exists ? unit / tiles : 0;
    int const tile = exists ? unit - sample * tiles : 0;
    auto x = static_cast<int>((sqrtf(8.0F * static_cast<float>(tile) + 1.0F) - 1.0F) * 0.5F);
    x += (x + 1) * (x + 2) / 2 <= tile ? 1 : 0;
    x -= x * (x + 1) / 2 > tile ? 1 : 0;
    int const y = tile - x * (x + 1) / 2;
    float const* rows_x[kTile];
    float const* rows_y[kTile];
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      auto const* const vectors = shared + sample * sample_floats;
      rows_x[k] = vectors + min(x + classes * k, layout.vectors - 1) * layout.stride;
      rows_y[k] = vectors + min(y + classes * k, layout.vectors - 1) * layout.stride;
    }
    float sums[kTile][kTile] = {};
    for (int begin = 0; begin < layout.quads; begin += kColumnsOfPart / kTile) {
      int const end = min(begin + kColumnsOfPart / kTile, layout.quads);
      float parts[kTile][kTile] = {};
      for (int quad = begin; quad < end; ++quad) {
        Quad of_x[kTile];
        Quad of_y[kTile];
#pragma unroll
        for (int k = 0; k < kTile; ++k) {
          of_x[k] = quad_at(rows_x[k] + quad * kTile);
          of_y[k] = quad_at(rows_y[k] + quad * kTile);
        }
#pragma unroll
        for (int lane = 0; lane < kTile; ++lane) {
#pragma unroll
          for (int a = 0; a < kTile; ++a) {
#pragma unroll
            for (int b = 0; b < kTile; ++b) {
              parts[a][b] = fmaf(of_x[a].lanes[lane], of_y[b].lanes[lane], parts[a][b]);
            }
          }
        }
      }
#pragma unroll
      for (int a = 0; a < kTile; ++a) {
#pragma unroll
        for (int b = 0; b < kTile; ++b) {
          sums[a][b] += parts[a][b];
        }
      }
    }
    if (one_round) {
      __syncthreads();  // all threads have read the vectors, which the products overwrite
    }
    auto* const products = one_round ? shared + sample * sample_floats
                                     : args.output + (first + sample) * output_width + layout.width;
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
#pragma unroll
      for (int b = 0; b < kTile; ++b) {
        int const i = x + classes * a;
        int const j = y + classes * b;
        if (exists && i < layout.vectors && j < layout.vectors && (x != y || a > b)) {
          products[i > j ? pair_number(i, j) : pair_number(j, i)] = sums[a][b];
        }
      }
    }
  }
  if (one_round) {
    __syncthreads();
    for_each_by_warps(samples, pairs, [&](int sample, int pair) {
      args.output[(first + sample) * output_width + layout.width + pair] =
          shared[sample * sample_floats + pair];
    });
  }
}

/// Computes the gradients of the vectors of each sample: the symmetric matrix of the gradients of
/// the products, times the vectors.
///
///   block: samples [first, first + samples), each with its vectors, and the matrix, in shared
///          memory
///   thread: vectors [4 rows, 4 rows + 4) of a sample, columns [4 quad, 4 quad + 4)
template <bool kQuads>
__global__ void __launch_bounds__(kBackwardThreads, 4)
    interaction_gradient_kernel(__grid_constant__ InteractionGradientArgs const args,
                                VectorLayout layout,
                                int samples_a_block,
                                int sample_floats) {
  extern __shared__ Quad shared_quads[];
  auto* const shared = reinterpret_cast<float*>(shared_quads);
  auto const first = static_cast<std::int64_t>(blockIdx.x) * samples_a_block;
  int const samples = static_cast<int>(min(std::int64_t{samples_a_block}, args.batch - first));
  int const row_tiles = (layout.vectors + kTile - 1) / kTile;
  int const matrix_stride = row_tiles * kTile;
  int const matrix_start = layout.vectors * layout.stride;
  std::int64_t const output_width = layout.width + pairs_of(layout.vectors);
  copy_vectors<kQuads>(shared, layout, sample_floats, args.dense, args.embeddings, first, samples);
  // The gradients of the products of vector i with those before it are neighbours in memory.
  for_each_by_warps(samples * layout.vectors, matrix_stride, [&](int row, int j) {
    int const sample = row / layout.vectors;
    int const i = row - sample * layout.vectors;
    auto* const matrix = shared + sample * sample_floats + matrix_start;
    if (j < i) {
      auto const* const gradient =
          args.output_gradient + (first + sample) * output_width + layout.width + pair_number(i, j);
      __pipeline_memcpy_async(matrix + i * matrix_stride + j, gradient, sizeof(float));
      __pipeline_memcpy_async(matrix + j * matrix_stride + i, gradient, sizeof(float));
    } else if (j == i || j >= layout.vectors) {
      matrix[i * matrix_stride + j] = 0.0F;
    }
  });
  wait_for_copies();
  int const units_a_sample = row_tiles * layout.quads;
  for (int unit = static_cast<int>(threadIdx.x); unit < samples * units_a_sample;
       unit += kBackwardThreads) {
    int const sample = unit / units_a_sample;
    int const in_sample = unit - sample * units_a_sample;
    int const row_tile = in_sample / layout.quads;
    int const column = (in_sample - row_tile * layout.quads) * kTile;
    auto const* const vectors = shared + sample * sample_floats + column;
    auto const* const matrix = shared + sample * sample_floats + matrix_start + row_tile * kTile;
    Quad sums[kTile] = {};
    for (int begin = 0; begin < layout.vectors; begin += kColumnsOfPart) {
      int const end = min(begin + kColumnsOfPart, layout.vectors);
      Quad parts[kTile] = {};
#pragma unroll 2
      for (int j = begin; j < end; ++j) {
        Quad const vector = quad_at(vectors + j * layout.stride);
        Quad const factors = quad_at(matrix + j * matrix_stride);
        int const own = j - row_tile * kTile;
#pragma unroll
        for (int a = 0; a < kTile; ++a) {
          if (a == own) {
            continue;  // 0 times an infinite element of the vector itself would be NaN
          }
#pragma unroll
          for (int lane = 0; lane < kTile; ++lane) {
            parts[a].lanes[lane] = fmaf(factors.lanes[a], vector.lanes[lane], parts[a].lanes[lane]);
          }
        }
      }
#pragma unroll
      for (int a = 0; a < kTile; ++a) {
#pragma unroll
        for (int lane = 0; lane < kTile; ++lane) {
          sums[a].lanes[lane] += parts[a].lanes[lane];
        }
      }
    }
    auto const row = first + sample;
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
      int const vector = row_tile * kTile + a;
      if (vector >= layout.vectors) {
        break;
      }
      float* to = nullptr;
      if (vector > 0) {
        if (args.embeddings_gradient != nullptr) {
          to = args.embeddings_gradient + (row * (layout.vectors - 1) + vector - 1) * layout.width +
               column;
        }
      } else if (args.dense_gradient != nullptr) {
        to = args.dense_gradient + row * layout.width + column;
        auto const* const copied = args.output_gradient + row * output_width + column;
#pragma unroll
        for (int lane = 0; lane < kTile; ++lane) {
          if (column + lane < layout.width) {
            sums[a].lanes[lane] += copied[lane];
          }
        }
      }
      if (to == nullptr) {
        continue;
      }
      if constexpr (kQuads) {
        *reinterpret_cast<Quad*>(to) = sums[a];
      } else {
#pragma unroll
        for (int lane = 0; lane < kTile; ++lane) {
          if (column + lane < layout.width) {
            to[lane] = sums[a].lanes[lane];
          }
        }
      }
    }
  }
}

/// Returns how many samples a block takes: enough to employ its threads once, where a sample
/// employs `units` of them, within the wanted shared memory.
int samples_a_block(std::int64_t units, std::int64_t threads, std::int64_t sample_floats) {
  auto const by_threads = std::max<std::int64_t>(threads / units, 1);
  auto const by_memory = std::max<std::int64_t>(kWantedSharedFloats / sample_floats, 1);
  return static_cast<int>(std::min(by_threads, by_memory));
}

/// Returns a number of floats rounded up to whole Quads.
std::int64_t whole_quads(std::int64_t floats) {
  return ceil_div<std::int64_t>(floats, kTile) * kTile;
}

}  // namespace

void dot_interaction(CudaStream stream, InteractionArgs const& args) {
  auto const vectors = args.features + 1;
  auto const output_width = args.width + pairs_of(vectors);
  if (args.batch == 0 || output_width == 0) {
    return;
  }
  if (sizes_are_small(args.features, args.width) && args.width > 0) {
    auto const layout = layout_of(args.features, args.width);
    auto const classes = ceil_div<std::int64_t>(vectors, kTile);
    auto const tiles = pairs_of(classes + 1);
    auto const vector_floats = vectors * layout.stride;
    // The products of one round of tiles overwrite the vectors.
    auto const sample_floats = tiles <= kForwardThreads
                                   ? whole_quads(std::max(vector_floats, pairs_of(vectors)))
                                   : vector_floats;
    if (sample_floats <= kMostSharedFloats) {
      bool const quads = args.width % kTile == 0 && quads_fit(args.dense, args.embeddings);
      auto const samples = samples_a_block(tiles, kForwardThreads, sample_floats);
      // Threads without a tile would take the room of further blocks.
      int const threads =
          samples * tiles <= kFewForwardThreads ? kFewForwardThreads : kForwardThreads;
      auto* const kernel = quads ? interaction_kernel<true> : interaction_kernel<false>;
      kernel<<<grid_for(args.batch, samples),
               threads,
               static_cast<std::size_t>(samples * sample_floats) * sizeof(float),
               stream>>>(args, layout, samples, static_cast<int>(sample_floats));
      check_launch("dot_interaction");
      return;
    }
  }
  large_interaction(stream, args);
}

void dot_interaction_gradient(CudaStream stream, InteractionGradientArgs const& args) {
  auto const vectors = args.features + 1;
  if (args.batch == 0 || args.width == 0) {
    return;
  }
  if (sizes_are_small(args.features, args.width)) {
    auto const layout = layout_of(args.features, args.width);
    auto const row_tiles = ceil_div<std::int64_t>(vectors, kTile);
    auto const sample_floats = vectors * (layout.stride + row_tiles * kTile);
    if (sample_floats <= kMostSharedFloats) {
      bool const quads =
          args.width % kTile == 0 &&
          quads_fit(args.dense, args.embeddings, args.dense_gradient, args.embeddings_gradient);
      auto const samples =
          samples_a_block(row_tiles * layout.quads, 2 * kBackwardThreads, sample_floats);
      auto* const kernel =
          quads ? interaction_gradient_kernel<true> : interaction_gradient_kernel<false>;
      kernel<<<grid_for(args.batch, samples),
               kBackwardThreads,
               static_cast<std::size_t>(samples * sample_floats) * sizeof(float),
               stream>>>(args, layout, samples, static_cast<int>(sample_floats));
      check_launch("dot_interaction_gradient");
      return;
    }
  }
  large_interaction_gradient(stream, args);
}

}  // namespace msstream::ops::kernels
