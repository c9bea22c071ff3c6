// SPDX-License-Identifier: Apache-2.0
#include "normalize/column_tiles.cuh"
#include "normalize/gates.hpp"
#include "normalize/gates_math.hpp"

#include <type_traits>

namespace msstream::ops::kernels {

namespace {

/// Returns the gate of a column.
template <class Of, class Args>
__device__ Of gate_of(Args const& args, ColumnMoments const& moments, std::int64_t column) {
  return Of(args.weight[args.one_weight ? 0 : column], moments, args.width, column);
}

template <class Of>
struct GateFunction {
  static constexpr int kInputs = 1;
  GateArgs args;

  struct OfColumn {
    Of gate;
    [[nodiscard]] __device__ float element(bool, float const (&x)[1]) const { return gate(x[0]); }
  };
  [[nodiscard]] __host__ __device__ float const* input(int) const { return args.input; }
  [[nodiscard]] __host__ __device__ float* output() const { return args.output; }
  [[nodiscard]] __device__ RowMask mask() const { return {}; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const {
    return {gate_of<Of>(args, args.moments, column)};
  }
};

/// The input of a gate and the gradient of its output, of which the kernels of the gradients are
/// functions.
template <class Of>
struct GateGradientInputs {
  static constexpr int kInputs = 2;
  GateGradientArgs args;

  [[nodiscard]] __host__ __device__ float const* input(int i) const {
    return i == 0 ? args.input : args.output_gradient;
  }
  [[nodiscard]] __device__ Of gate(std::int64_t column) const {
    return gate_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F}, column);
  }
};

/// The sums of the gradients of Gate::dice over a column: that of the weight, those of the
/// normalised elements, and of their products with the normalised elements.
struct DiceTerms : GateGradientInputs<DiceGate> {
  struct OfColumn {
    DiceGate gate;
    __device__ void add(bool, float const (&x)[2], double (&sums)[kGateSums]) const {
      double const of_normal = gate.of_normal(x[0], x[1]);
      sums[0] += static_cast<double>(gate.of_weight(x[0], x[1]));
      sums[1] += of_normal;
      sums[2] += of_normal * static_cast<double>(gate.normal(x[0]));
    }
  };
  [[nodiscard]] __device__ RowMask mask() const { return {}; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const { return {gate(column)}; }
};
/// The sums of the gradients of the weight of Gate::prelu, and the gradient of the input, which
/// needs no sums: it is computed in the same pass, unless it is not wanted.
struct PreluTerms : GateGradientInputs<PreluGate> {
  float* input_gradient;

  struct OfColumn {
    PreluGate gate;
    __device__ void add(bool, float const (&x)[2], double (&sums)[kGateSums]) const {
      sums[0] += static_cast<double>(gate.of_weight(x[0], x[1]));
    }
    [[nodiscard]] __device__ float element(bool, float const (&x)[2]) const {
      return gate.direct(x[0], x[1]);
    }
  };
  [[nodiscard]] __host__ __device__ float* output() const { return input_gradient; }
  [[nodiscard]] __device__ RowMask mask() const { return {}; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const { return {gate(column)}; }
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
struct GateInputGradient : GateGradientInputs<Of> {
  double const* sums;  ///< [ranks, kGateSums, width], used by Gate::dice
  std::int64_t ranks;

  struct OfColumn {
    Of gate;
    float mean;
    float mean_product;
    [[nodiscard]] __device__ float element(bool counts, float const (&x)[2]) const {
      float result = gate.direct(x[0], x[1]);
      if constexpr (std::is_same_v<Of, DiceGate>) {
        float const through = gate.of_normal(x[0], x[1]);
        result += gate.reciprocal() *
                  (counts ? through - mean - gate.normal(x[0]) * mean_product : through);
      }
      return result;
    }
  };
  [[nodiscard]] __host__ __device__ float* output() const { return this->args.input_gradient; }
  [[nodiscard]] __device__ RowMask mask() const { return this->args.mask; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const {
    OfColumn made{this->gate(column), 0.0F, 0.0F};
    if constexpr (std::is_same_v<Of, DiceGate>) {
      auto const width = this->args.width;
      double const rows = this->args.statistics[3 * width + column];
      auto const mean_of = [&](std::int64_t k) {
        return static_cast<float>(sum_over_ranks(sums, ranks, kGateSums, k, width, column) / rows);
      };
      made.mean = mean_of(1);
      made.mean_product = mean_of(2);
    }
    return made;
  }
};

/// Computes the gradient of the weight, if it is wanted, and the sums of each column. Of
/// Gate::prelu it also computes the gradient of the input, unless `input_gradient` is null.
void compute_sums(CudaStream stream,
                  GateGradientArgs const& args,
                  double* sums,
                  float* input_gradient) {
  auto const sum = [&](auto const& terms) {
    sum_columns<kGateSums>(
        stream,
        "gate_gradient",
        args.rows,
        args.width,
        args.workspace,
        terms,
        FinishGateSums{args.one_weight ? nullptr : args.weight_gradient, sums, args.width});
  };
  if (args.gate == Gate::dice) {
    sum(DiceTerms{{args}});
  } else {
    sum(PreluTerms{{args}, input_gradient});
  }
  if (args.weight_gradient != nullptr && args.one_weight) {
    sum_of_columns_kernel<<<1, kBlockThreads, 0, stream>>>(sums, args.width, args.weight_gradient);
    check_launch("gate_gradient");
  }
}

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
  bool const has_sums = args.weight_gradient != nullptr || args.gate == Gate::dice;
  if (has_sums) {
    auto of_sums = args;
    of_sums.workspace = sums + kGateSums * args.width;
    compute_sums(stream, of_sums, sums, args.input_gradient);
  }
  if (args.input_gradient != nullptr && (args.gate == Gate::dice || !has_sums)) {
    gate_input_gradient(stream, args, sums, 1);
  }
}

void gate_gradient_sums(CudaStream stream, GateGradientArgs const& args, double* sums) {
  compute_sums(stream, args, sums, nullptr);
}
void gate_input_gradient(CudaStream stream,
                         GateGradientArgs const& args,
                         double const* sums,
                         std::int64_t ranks) {
  with_gate(args.gate, [&]<class Of>(Of const*) {
    map_columns(
        stream, "gate_gradient", args.rows, args.width, GateInputGradient<Of>{{args}, sums, ranks});
  });
}

}  // namespace msstream::ops::kernels
