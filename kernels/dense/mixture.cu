// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/row_vector.cuh"
#include "dense/mixture.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

namespace {

constexpr int kWarp = 32;
constexpr int kWarpsABlock = 4;
constexpr int kThreads = kWarp * kWarpsABlock;

/// The part of the table of experts that lists the experts of one gate.
struct GateChoices {
  int begin;
  int count;

  __device__ GateChoices(GateTable const& table, int gate)
      : begin(table.first_choice[gate]), count(table.first_choice[gate + 1] - begin) {}
};

/// Stores neighbouring elements of a row, rounded to T.
template <class T, int Count>
__device__ void store_row_part(T* to, Columns<Count> const& columns) {
  if constexpr (sizeof(T) == sizeof(float)) {
    store_columns(to, columns);
  } else {
    store_narrowed(to, columns);
  }
}

/// Computes each row of a gate's output with one warp. Every lane computes the softmax, which has
/// only a few terms.
template <class T, int Count>
__global__ void __launch_bounds__(kThreads) mix_kernel(__grid_constant__ MixtureArgs const args) {
  std::int64_t const place = grid_thread() / kWarp;
  int const lane = static_cast<int>(threadIdx.x) % kWarp;
  if (place >= args.table.gates * args.batch) {
    return;
  }
  int const gate = static_cast<int>(place / args.batch);
  std::int64_t const row = place - gate * args.batch;
  GateChoices const choices(args.table, gate);
  float const* const logits = args.logits.first[gate] + row * args.row_stride[gate];
  float* const weights = args.weights.first[gate] + row * args.row_stride[gate];
  float highest = -INFINITY;
  for (int k = 0; k < choices.count; ++k) {
    highest = fmaxf(highest, logits[k]);  // fmaxf() skips a NaN, but a later sum becomes NaN
  }
  float sum = 0.0F;
  for (int k = 0; k < choices.count; ++k) {
    sum += expf(logits[k] - highest);
  }
  auto const weight = [&](int k) { return expf(logits[k] - highest) / sum; };
  for (int k = lane; k < choices.count; k += kWarp) {
    weights[k] = weight(k);
  }
  for (std::int64_t column = lane * Count; column < args.width; column += kWarp * Count) {
    Columns<Count> total;
    for (int k = 0; k < choices.count; ++k) {
      auto const* const expert =
          static_cast<T const*>(args.experts[args.table.expert[choices.begin + k]]);
      auto columns = load_columns<Count>(expert + row * args.width + column);
      columns.multiply(weight(k));
      total.add(columns);
    }
    store_row_part(static_cast<T*>(args.output) + place * args.width + column, total);
  }
}

__device__ float sum_of_warp(float value) {
  for (int half = kWarp / 2; half > 0; half /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, half);
  }
  return value;
}

/// Computes the gradients of a mixture of experts for one row of the batch in each block, in three
/// steps:
///
///   1. each warp takes some of the choices: the derivative by a weight is a dot product
///   2. each thread takes some of the choices: the derivative of the softmax
///   3. each thread takes some columns of all experts: sums over an expert's choices
template <class T, int Count>
__global__ void __launch_bounds__(kThreads)
    mix_gradient_kernel(__grid_constant__ MixtureGradientArgs const args) {
  __shared__ float by_weight[GateTable::kMostChoices];
  __shared__ float weights[GateTable::kMostChoices];
  std::int64_t const row = blockIdx.x;
  int const lane = static_cast<int>(threadIdx.x) % kWarp;
  auto const& table = args.table;
  auto const gradient_of = [&](int gate) {
    return static_cast<T const*>(args.output_gradient) + (gate * args.batch + row) * args.width;
  };
  for (int gate = 0; gate < table.gates; ++gate) {
    GateChoices const choices(table, gate);
    T const* const gradient = gradient_of(gate);
    for (int k = static_cast<int>(threadIdx.x) / kWarp; k < choices.count; k += kWarpsABlock) {
      auto const* const expert =
          static_cast<T const*>(args.experts[table.expert[choices.begin + k]]) + row * args.width;
      float sum = 0.0F;
      for (std::int64_t column = lane * Count; column < args.width; column += kWarp * Count) {
        auto const left = load_columns<Count>(gradient + column);
        auto const right = load_columns<Count>(expert + column);
        for (int c = 0; c < Count; ++c) {
          sum += left.at[c] * right.at[c];
        }
      }
      sum = sum_of_warp(sum);
      if (lane == 0) {
        by_weight[choices.begin + k] = sum;
        weights[choices.begin + k] = args.weights.first[gate][row * args.row_stride[gate] + k];
      }
    }
  }
  __syncthreads();
  for (int gate = 0; gate < table.gates; ++gate) {
    GateChoices const choices(table, gate);
    for (int k = static_cast<int>(threadIdx.x); k < choices.count; k += kThreads) {
      float weighted = 0.0F;
      for (int other = 0; other < choices.count; ++other) {
        weighted += weights[choices.begin + other] * by_weight[choices.begin + other];
      }
      args.logits_gradient.first[gate][row * args.row_stride[gate] + k] =
          weights[choices.begin + k] * (by_weight[choices.begin + k] - weighted);
    }
  }
  std::int64_t const columns_an_expert = args.width / Count;
  for (std::int64_t i = threadIdx.x; i < args.expert_count * columns_an_expert; i += kThreads) {
    int const expert = static_cast<int>(i / columns_an_expert);
    std::int64_t const column = (i - expert * columns_an_expert) * Count;
    if (args.expert_gradients[expert] == nullptr) {
      continue;
    }
    Columns<Count> total;
    for (int gate = 0; gate < table.gates; ++gate) {
      for (int choice = table.first_choice[gate]; choice < table.first_choice[gate + 1]; ++choice) {
        if (table.expert[choice] == expert) {
          auto columns = load_columns<Count>(gradient_of(gate) + column);
          columns.multiply(weights[choice]);
          total.add(columns);
        }
      }
    }
    store_row_part(static_cast<T*>(args.expert_gradients[expert]) + row * args.width + column,
                   total);
  }
}

template <class T, class Pointer>
bool allow_quads(Pointer const* arrays, int count, std::int64_t width) {
  return std::all_of(arrays, arrays + count, [&](void const* array) {
    return allows_vectors(static_cast<T const*>(array), width, 4);
  });
}

int experts_of(GateTable const& table) {
  int count = 0;
  for (int choice = 0; choice < table.choices(); ++choice) {
    count = std::max(count, table.expert[choice] + 1);
  }
  return count;
}

}  // namespace

void mix_experts(CudaStream stream, MixtureArgs const& args) {
  auto const rows = args.table.gates * args.batch;
  if (rows == 0) {
    return;
  }
  with_real_type("mix_experts: an expert", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool const quads = allow_quads<T>(args.experts, experts_of(args.table), args.width) &&
                       allows_vectors(static_cast<T const*>(args.output), args.width, 4);
    auto const kernel = quads ? mix_kernel<T, 4> : mix_kernel<T, 1>;
    kernel<<<grid_for(rows, kWarpsABlock), kThreads, 0, stream.handle>>>(args);
  });
  check_launch("mix_experts");
}

void mix_experts_gradient(CudaStream stream, MixtureGradientArgs const& args) {
  if (args.batch == 0) {
    return;
  }
  with_real_type("mix_experts_gradient: an expert", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool const quads = allow_quads<T>(args.experts, args.expert_count, args.width) &&
                       allow_quads<T>(args.expert_gradients, args.expert_count, args.width) &&
                       allows_vectors(static_cast<T const*>(args.output_gradient), args.width, 4);
    auto const kernel = quads ? mix_gradient_kernel<T, 4> : mix_gradient_kernel<T, 1>;
    kernel<<<grid_for(args.batch, 1), kThreads, 0, stream.handle>>>(args);
  });
  check_launch("mix_experts_gradient");
}

}  // namespace msstream::ops::kernels
