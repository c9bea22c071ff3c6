// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "dense/column_sums.hpp"
#include "elementwise/unary_math.hpp"
#include "mixed/summed_gradients.hpp"

#include <algorithm>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

constexpr int kMostThreads = 512;

/// The division of a matrix among blocks of [groups, lanes] threads. A lane owns `Lanes`
/// neighbouring columns, and a block all columns if it can, so that blocks that run at the same
/// time stream through neighbouring rows:
///
///   lane l of block (x, y)   columns [Lanes l', Lanes (l' + 1)) with l' = lanes x + l
///   group g                  rows r, r + groups * blocks, … from r = groups y + g on
///
/// Each block gives a row of column sums; a second pass adds those of all blocks.
struct Streams {
  dim3 threads;
  dim3 blocks;
  bool has_parts;  ///< whether sums have several parts or groups, which are added in double
  std::size_t shared_bytes;

  Streams(std::int64_t rows, std::int64_t columns, int lanes, std::size_t workspace_bytes) {
    constexpr std::int64_t kThreadsAtOnce = 132 * 1024;  // of the H200, with 64 registers each
    constexpr std::int64_t kFewThreads = 256;
    constexpr std::int64_t kLeastRows = 8;  // of a thread
    auto const of_row = ceil_div<std::int64_t>(columns, lanes);
    auto const beside = ceil_div<std::int64_t>(of_row, kMostThreads);
    auto const across = ceil_div(of_row, beside);
    auto const groups = ceil_div(kFewThreads, across);
    auto const held = static_cast<std::int64_t>(workspace_bytes / sizeof(float)) / columns;
    // The second pass reads the blocks' sums from the workspace, and must not use it itself.
    auto const wanted = std::min({ceil_div(kThreadsAtOnce, groups * across * beside),
                                  ceil_div(rows, kLeastRows * groups),
                                  held,
                                  kRowsOfOnePass});
    threads = dim3(static_cast<unsigned>(across), static_cast<unsigned>(groups));
    blocks = dim3(static_cast<unsigned>(beside), grid_for(std::max<std::int64_t>(wanted, 1), 1));
    has_parts = groups > 1 || rows > kTermsOfPart * std::int64_t{blocks.y};
    shared_bytes = has_parts ? sizeof(double) * threads.x * threads.y * lanes : 0;
  }
};

/// Calls `row_of(element, sums)` for each row of the calling lane's columns, where `element` is the
/// index of the first of them, and stores the block's sums in its row of `partials`.
template <int Lanes, class RowOf>
__device__ void for_each_row(
    std::int64_t rows, std::int64_t columns, bool has_parts, float* partials, RowOf const& row_of) {
  extern __shared__ double totals[];  // [groups, Lanes, lanes] if there are several parts
  auto const total = [&](unsigned group, int k) -> double& {
    return totals[(group * Lanes + k) * blockDim.x + threadIdx.x];
  };
  auto const column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * Lanes;
  auto const last = column < columns ? rows : 0;
  auto const step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  auto row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  float sums[Lanes] = {};
  if (has_parts) {
#pragma unroll
    for (int k = 0; k < Lanes; ++k) {
      total(threadIdx.y, k) = 0.0;
    }
  }
  while (row < last) {
    auto const end = min(row + kTermsOfPart * step, last);
#pragma unroll 2
    for (; row < end; row += step) {
      row_of(row * columns + column, sums);
    }
    if (has_parts) {
#pragma unroll
      for (int k = 0; k < Lanes; ++k) {
        total(threadIdx.y, k) += sums[k];
        sums[k] = 0.0F;
      }
    }
  }
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
#pragma unroll
    for (int k = 0; k < Lanes; ++k) {
      double sum = sums[k];  // 0 if there are several parts
      for (unsigned group = 0; has_parts && group < blockDim.y; ++group) {
        sum += total(group, k);
      }
      partials[blockIdx.y * columns + column + k] = static_cast<float>(sum);
    }
  }
}

template <class T, int Lanes>
__device__ Pack<float, Lanes> widened_at(void const* array, std::int64_t element) {
  auto const pack =
      *reinterpret_cast<Pack<T, Lanes> const*>(static_cast<T const*>(array) + element);
  Pack<float, Lanes> values;
#pragma unroll
  for (int k = 0; k < Lanes; ++k) {
    values.lanes[k] = widen(pack.lanes[k]);
  }
  return values;
}
template <class T, int Lanes>
__device__ void store_at(void* array, std::int64_t element, Pack<float, Lanes> const& values) {
  Pack<T, Lanes> pack;
#pragma unroll
  for (int k = 0; k < Lanes; ++k) {
    pack.lanes[k] = narrowed<T>(values.lanes[k]);
  }
  *reinterpret_cast<Pack<T, Lanes>*>(static_cast<T*>(array) + element) = pack;
}

/// Returns the derivative of gelu_tanh by the GPU's approximations of exp and of a quotient, whose
/// errors are far below those of half precision. The derivative by the functions of float32 takes
/// as long to compute as its operands take to load.
__device__ float quick_gelu_slope(float x) {
  using Gelu = GeluByTangent;
  float const square = Gelu::kCube * x * x;
  float const gate = __fdividef(1.0F, 1.0F + __expf(-Gelu::kSlope * x * (1.0F + square)));
  float const slope = gate * (1.0F - gate);
  // The case of a slope of 0 avoids 0 * infinity for large x.
  return slope == 0.0F ? gate : gate + slope * x * Gelu::kSlope * (1.0F + 3.0F * square);
}

template <class T, Activation Kind>
__device__ float gradient_before(float saved, float gradient) {
  if constexpr (Kind == Activation::relu) {
    return Rectified{}.gradient(saved, gradient);
  } else if constexpr (std::is_same_v<T, float>) {
    return GeluByTangent{}.gradient(saved, gradient);
  } else {
    return quick_gelu_slope(saved) * gradient;
  }
}

template <class T, int Lanes, Activation Kind>
__global__ void __launch_bounds__(kMostThreads, 2)
    activation_sums_kernel(ActivationSumsArgs const args, bool has_parts, float* partials) {
  for_each_row<Lanes>(
      args.rows, args.columns, has_parts, partials, [&](std::int64_t element, float(&sums)[Lanes]) {
        auto gradient = widened_at<T, Lanes>(args.output_gradient, element);
        if constexpr (Kind != Activation::none) {
          auto const saved = widened_at<T, Lanes>(args.saved, element);
#pragma unroll
          for (int k = 0; k < Lanes; ++k) {
            gradient.lanes[k] = gradient_before<T, Kind>(saved.lanes[k], gradient.lanes[k]);
          }
        }
#pragma unroll
        for (int k = 0; k < Lanes; ++k) {
          sums[k] += gradient.lanes[k];
        }
        if (args.input_gradient != nullptr) {
          store_at<T, Lanes>(args.input_gradient, element, gradient);
        }
      });
}

template <class T, int Lanes>
__global__ void __launch_bounds__(kMostThreads, 2)
    cross_sums_kernel(CrossSumsArgs const args, bool has_parts, float* partials) {
  for_each_row<Lanes>(
      args.rows, args.columns, has_parts, partials, [&](std::int64_t element, float(&sums)[Lanes]) {
        auto const gradient = widened_at<T, Lanes>(args.output_gradient, element);
        auto of_projected = widened_at<T, Lanes>(args.first, element);
        Pack<float, Lanes> of_first{};
        if (args.first_gradient != nullptr) {
          of_first = widened_at<T, Lanes>(args.projected, element);
        }
#pragma unroll
        for (int k = 0; k < Lanes; ++k) {
          of_projected.lanes[k] *= gradient.lanes[k];
          sums[k] += of_projected.lanes[k];
          of_first.lanes[k] *= gradient.lanes[k];
        }
        store_at<T, Lanes>(args.projected_gradient, element, of_projected);
        if (args.first_gradient != nullptr) {
          store_at<T, Lanes>(args.first_gradient, element, of_first);
        }
      });
}

/// Calls launch(type, lanes, streams, partials) for the type of the elements, as
/// std::type_identity, and the columns of a lane, as std::integral_constant: 16 bytes if `aligned`.
/// Then adds up the blocks' sums.
template <class Launch>
void sum_columns(CudaStream stream,
                 char const* name,
                 DType dtype,
                 std::int64_t rows,
                 std::int64_t columns,
                 bool aligned,
                 float* sums,
                 Launch const& launch) {
  if (columns == 0) {
    return;
  }
  if (rows == 0) {
    set_to_zero(stream, sums, columns);
    return;
  }
  with_real_type(name, dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int kVector = static_cast<int>(16 / sizeof(T));
    auto const with_lanes = [&](auto lanes) {
      Streams const streams(rows, columns, lanes, stream.libraries->workspace_bytes);
      std::int64_t const partial_rows = streams.blocks.y;
      auto* const partials =
          partial_rows == 1 ? sums : static_cast<float*>(stream.libraries->workspace);
      launch(type, lanes, streams, partials);
      check_launch(name);
      if (partial_rows > 1) {
        column_sums(stream,
                    {.matrix = partials, .rows = partial_rows, .columns = columns, .sums = sums});
      }
    };
    if (aligned && columns % kVector == 0) {
      with_lanes(std::integral_constant<int, kVector>{});
    } else {
      with_lanes(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace

void activation_gradient_sums(CudaStream stream, ActivationSumsArgs const& args) {
  bool const aligned = quads_fit(static_cast<char const*>(args.saved),
                                 static_cast<char const*>(args.output_gradient),
                                 static_cast<char const*>(args.input_gradient));
  sum_columns(stream,
              "activation_gradient_sums",
              args.dtype,
              args.rows,
              args.columns,
              aligned,
              args.sums,
              [&](auto type, auto lanes, Streams const& streams, float* partials) {
                using T = typename decltype(type)::type;
                constexpr int kLanes = lanes.value;
                auto const start = [&](auto* kernel) {
                  kernel<<<streams.blocks, streams.threads, streams.shared_bytes, stream.handle>>>(
                      args, streams.has_parts, partials);
                };
                switch (args.activation) {
                  case Activation::none:
                    return start(activation_sums_kernel<T, kLanes, Activation::none>);
                  case Activation::relu:
                    return start(activation_sums_kernel<T, kLanes, Activation::relu>);
                  case Activation::gelu_tanh:
                    return start(activation_sums_kernel<T, kLanes, Activation::gelu_tanh>);
                }
              });
}

void cross_gradient_sums(CudaStream stream, CrossSumsArgs const& args) {
  bool const aligned = quads_fit(static_cast<char const*>(args.first),
                                 static_cast<char const*>(args.projected),
                                 static_cast<char const*>(args.output_gradient),
                                 static_cast<char const*>(args.first_gradient),
                                 static_cast<char const*>(args.projected_gradient));
  sum_columns(stream,
              "cross_gradient_sums",
              args.dtype,
              args.rows,
              args.columns,
              aligned,
              args.sums,
              [&](auto type, auto lanes, Streams const& streams, float* partials) {
                using T = typename decltype(type)::type;
                cross_sums_kernel<T, lanes.value>
                    <<<streams.blocks, streams.threads, streams.shared_bytes, stream.handle>>>(
                        args, streams.has_parts, partials);
              });
}

}  // namespace msstream::ops::kernels
