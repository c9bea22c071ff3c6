// SPDX-License-Identifier: Apache-2.0
#include "normalize/column_tiles.cuh"
#include "normalize/gates.hpp"
#include "normalize/gates_math.hpp"

#include <type_traits>

namespace msstream::ops::kernels {

namespace {

template <class Of, class Args>
__device__ Of gate_of(Args const& args, ColumnMoments const& moments, std::int64_t column) {
  return Of(args.weight[args.one_weight ? 0 : column], moments, args.width, column);
}

template <class Of>
struct GateFunction {
  GateArgs args;

  struct OfColumn {
    float const* input;
    float* output;
    std::int64_t width;
    Of gate;
    __device__ void operator()(std::int64_t row) const {
      output[row * width] = gate(input[row * width]);
    }
  };
  __device__ OfColumn of_column(std::int64_t column) const {
    return {args.input + column,
            args.output + column,
            args.width,
            gate_of<Of>(args, args.moments, column)};
  }
};

/// The sums of a gate's gradients over a column: that of the weight, those of the normalised
/// elements, and of their products with the normalised elements.
template <class Of>
struct GateTerms {
  GateGradientArgs args;

  struct OfColumn {
    float const* input;
    float const* gradient;
    std::int64_t width;
    Of gate;
    __device__ void operator()(std::int64_t row, double (&sums)[3]) const {
      float const x = input[row * width];
      float const dy = gradient[row * width];
      sums[0] += static_cast<double>(gate.of_weight(x, dy));
      if constexpr (std::is_same_v<Of, DiceGate>) {
        double const of_normal = gate.of_normal(x, dy);
        sums[1] += of_normal;
        sums[2] += of_normal * static_cast<double>(gate.normal(x));
      }
    }
  };
  __device__ OfColumn of_column(std::int64_t column) const {
    return {args.input + column,
            args.output_gradient + column,
            args.width,
            gate_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F}, column)};
  }
};
struct FinishGateSums {
  float* weight_gradient;  ///< null if all columns have one weight
  double* totals;          ///< [3, width]
  std::int64_t width;
  __device__ void operator()(std::int64_t column, double const (&sums)[3]) const {
    if (weight_gradient != nullptr) {
      weight_gradient[column] = static_cast<float>(sums[0]);
    }
    for (int k = 0; k < 3; ++k) {
      totals[k * width + column] = sums[k];
    }
  }
};

/// Adds the numbers of all columns: each of a block's threads every 256th, then the threads in
/// order.
__global__ void __launch_bounds__(kBlockThreads)
    sum_of_columns_kernel(double const* totals, std::int64_t width, float* sum) {
  __shared__ double shared[kBlockThreads];
  double part = 0.0;
  for (std::int64_t column = threadIdx.x; column < width; column += kBlockThreads) {
    part += totals[column];
  }
  shared[threadIdx.x] = part;
  __syncthreads();
  for (unsigned half = kBlockThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *sum = static_cast<float>(shared[0]);
  }
}

template <class Of>
struct GateInputGradient {
  GateGradientArgs args;
  double const* sums;  ///< [ranks, kGateSums, width], used by Gate::dice
  std::int64_t ranks;

  struct OfColumn {
    float const* input;
    float const* gradient;
    float* output;
    std::int64_t width;
    Of gate;
    float mean;
    float mean_product;
    RowMask mask;
    __device__ void operator()(std::int64_t row) const {
      auto const at = row * width;
      float const x = input[at];
      float const dy = gradient[at];
      float result = gate.direct(x, dy);
      if constexpr (std::is_same_v<Of, DiceGate>) {
        float const through = gate.of_normal(x, dy);
        result += gate.reciprocal() *
                  (mask.counts(row) ? through - mean - gate.normal(x) * mean_product : through);
      }
      output[at] = result;
    }
  };
  __device__ OfColumn of_column(std::int64_t column) const {
    OfColumn made{args.input + column,
                  args.output_gradient + column,
                  args.input_gradient + column,
                  args.width,
                  gate_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F}, column),
                  0.0F,
                  0.0F,
                  args.mask};
    if constexpr (std::is_same_v<Of, DiceGate>) {
      double const rows = args.statistics[3 * args.width + column];
      auto const mean_of = [&](std::int64_t k) {
        return static_cast<float>(sum_over_ranks(sums, ranks, kGateSums, k, args.width, column) /
                                  rows);
      };
      made.mean = mean_of(1);
      made.mean_product = mean_of(2);
    }
    return made;
  }
};

}  // namespace

void gate(CudaStream stream, GateArgs const& args) {
  with_gate(args.gate, [&]<class Of>(Of const*) {
    map_columns(stream, "gate", args.rows, args.width, GateFunction<Of>{args});
  });
}

std::size_t gate_gradient_workspace_bytes(CudaStream /*stream*/,
                                          std::int64_t rows,
                                          std::int64_t width) {
  return static_cast<std::size_t>(kGateSums * width) * sizeof(double) +
         column_sums_workspace_bytes(3, rows, width);
}
void gate_gradient(CudaStream stream, GateGradientArgs const& args) {
  auto* const sums = static_cast<double*>(args.workspace);
  if (args.weight_gradient != nullptr || args.gate == Gate::dice) {
    auto of_sums = args;
    of_sums.workspace = sums + kGateSums * args.width;
    gate_gradient_sums(stream, of_sums, sums);
  }
  if (args.input_gradient != nullptr) {
    gate_input_gradient(stream, args, sums, 1);
  }
}

void gate_gradient_sums(CudaStream stream, GateGradientArgs const& args, double* sums) {
  with_gate(args.gate, [&]<class Of>(Of const*) {
    sum_columns<3>(
        stream,
        "gate_gradient",
        args.rows,
        args.width,
        args.workspace,
        GateTerms<Of>{args},
        FinishGateSums{args.one_weight ? nullptr : args.weight_gradient, sums, args.width});
  });
  if (args.weight_gradient != nullptr && args.one_weight) {
    sum_of_columns_kernel<<<1, kBlockThreads, 0, stream>>>(sums, args.width, args.weight_gradient);
    check_launch("gate_gradient");
  }
}
void gate_input_gradient(CudaStream stream,
                         GateGradientArgs const& args,
                         double const* sums,
                         std::int64_t ranks) {
  with_gate(args.gate, [&]<class Of>(Of const*) {
    map_columns(
        stream, "gate_gradient", args.rows, args.width, GateInputGradient<Of>{args, sums, ranks});
  });
}

}  // namespace msstream::ops::kernels
