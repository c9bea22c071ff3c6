// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "dense/column_sums.hpp"
#include "dense/dense.hpp"
#include "dense/product.hpp"
#include "dense/product_in_parts.hpp"
#include "elementwise/math.hpp"
#include "elementwise/unary.hpp"

#include <cstddef>

namespace msstream::ops::kernels {

namespace {

constexpr int kWarpThreads = 32;

__device__ float activate(float value, Activation activation) {
  return activation == Activation::relu ? rectify(value) : value;
}

/// Computes output[row] = activation(input[row, :] · weight + bias) for dense layers with one
/// output, one warp per row; blockIdx.y is the layer.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    dot_rows_kernel(DenseArgs const args, bool aligned) {
  std::int64_t const row = grid_thread() / kWarpThreads;
  int const lane = static_cast<int>(threadIdx.x % kWarpThreads);
  if (row >= args.batch) {
    return;
  }
  std::int64_t const layer = blockIdx.y;
  auto const first_row = args.shared_input ? 0 : layer * args.batch;
  T const* const input = static_cast<T const*>(args.input) + (first_row + row) * args.inputs;
  T const* const weight = static_cast<T const*>(args.weight) + layer * args.inputs;
  float sum = 0.0F;
#pragma unroll 2
  for (std::int64_t quad = lane; 4 * quad < args.inputs; quad += kWarpThreads) {
    QuadPlace const place(quad, args.inputs, aligned);
    auto const x = place.load(input);
    auto const w = place.load(weight);
    for (int k = 0; k < 4; ++k) {
      sum += x.lanes[k] * w.lanes[k];
    }
  }
  for (int half = kWarpThreads / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xFFFFFFFFU, sum, half);
  }
  if (lane == 0) {
    float const bias = args.bias != nullptr ? widen(static_cast<T const*>(args.bias)[layer]) : 0.0F;
    static_cast<T*>(args.output)[layer * args.batch + row] =
        narrowed<T>(activate(sum + bias, args.activation));
  }
}

/// Computes input_gradient[row, column] = output_gradient[row] * weight[column] for dense layers
/// with one output. The rows of all layers are numbered one after the other.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    outer_product_kernel(DenseInputGradientArgs const args) {
  std::int64_t const i = grid_thread();
  std::int64_t const row = i / args.inputs;
  if (row >= args.layers * args.batch) {
    return;
  }
  T const* const weight = static_cast<T const*>(args.weight) + row / args.batch * args.inputs;
  float const gradient = widen(static_cast<T const*>(args.output_gradient)[row]);
  float const added = args.added != nullptr ? widen(static_cast<T const*>(args.added)[i]) : 0.0F;
  static_cast<T*>(args.input_gradient)[i] =
      narrowed<T>(gradient * widen(weight[i - row * args.inputs]) + added);
}

/// Computes output = activation(output + bias) after a matrix product, if cuBLASLt could not apply
/// them in the product's epilogue. A product of half precision is then rounded twice.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) bias_activation_kernel(DenseArgs const args) {
  std::int64_t const i = grid_thread();
  std::int64_t const row = i / args.outputs;
  if (row >= args.layers * args.batch) {
    return;
  }
  auto const first_bias = row / args.batch * args.outputs;
  auto const column = i - row * args.outputs;
  float const bias =
      args.bias != nullptr ? widen(static_cast<T const*>(args.bias)[first_bias + column]) : 0.0F;
  T& output = static_cast<T*>(args.output)[i];
  output = narrowed<T>(activate(widen(output) + bias, args.activation));
}

/// Returns the epilogue for the bias and for an activation other than gelu_tanh.
cublasLtEpilogue_t epilogue_of(DenseArgs const& args) {
  bool const relu = args.activation == Activation::relu;
  if (args.bias == nullptr) {
    return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  }
  return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

/// Computes a matrix product with its epilogue and returns true. If cuBLASLt has no algorithm for
/// the product with the epilogue, computes the product without the epilogue and returns false.
bool fused_product(CudaStream stream, MatrixProduct product) {
  if (try_product(stream, product)) {
    return true;
  }
  product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  product.bias = nullptr;
  (void)try_product(stream, product);
  return false;
}

MatrixProduct product_of(DenseArgs const& args) {
  return {.a = args.weight,
          .b = args.input,
          .d = args.output,
          .m = args.outputs,
          .n = args.batch,
          .k = args.inputs,
          .epilogue = epilogue_of(args),
          .bias = args.bias,
          .batch = args.layers,
          .stride_a = args.inputs * args.outputs,
          .stride_b = args.shared_input ? 0 : args.batch * args.inputs,
          .operands = args.dtype,
          .result = args.dtype};
}

/// Computes a dense layer with gelu_tanh as one product and returns true. Returns false, without a
/// product, if cuBLASLt has no epilogue for it, and for float32: the epilogue's hyperbolic tangent
/// is made for results of half precision.
bool gelu_product(CudaStream stream, DenseArgs const& args) {
  bool const fits = args.inputs > 0 && args.outputs > 1 && args.outputs % kAuxMultiple == 0 &&
                    quads_fit(static_cast<char const*>(args.pre_activation));
  if (!fits || args.dtype == DType::float32) {
    return false;
  }
  auto product = product_of(args);
  product.epilogue =
      args.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  product.aux = args.pre_activation;
  return try_product(stream, product);
}

/// Computes a dense layer with gelu_tanh, and its pre-activation. There is no form without the
/// pre-activation, which would have another epilogue, and so perhaps other bits.
void gelu_dense(CudaStream stream, DenseArgs const& args) {
  if (gelu_product(stream, args)) {
    return;
  }
  DenseArgs sums = args;
  sums.activation = Activation::none;
  sums.output = args.pre_activation;
  sums.pre_activation = nullptr;
  dense(stream, sums);
  unary(stream,
        {.function = UnaryFunction::gelu_tanh,
         .parameter = 0.0F,
         .input = args.pre_activation,
         .output = args.output,
         .count = args.layers * args.batch * args.outputs,
         .dtype = args.dtype});
}

TallProduct tall_product(DenseWeightGradientArgs const& args) {
  return {args.batch, args.inputs, args.outputs, args.layers, args.shared_input};
}

/// Computes the weight gradient of dense layers with two or more outputs. Returns whether the bias
/// gradient has been computed as well.
///
/// The bias gradient is computed in the epilogue of a single product only: this epilogue rules out
/// splitting the product into parts, and doubles the time of a batch of 8 products (429 x 256 of
/// 512 rows: 39 µs instead of 19 µs on one H200, tf32).
bool weight_product(CudaStream stream, DenseWeightGradientArgs const& args) {
  MatrixProduct product{.a = args.output_gradient,
                        .b = args.input,
                        .d = args.weight_gradient,
                        .m = args.outputs,
                        .n = args.inputs,
                        .k = args.batch,
                        .transpose_b = CUBLAS_OP_T,
                        .batch = args.layers,
                        .stride_a = args.batch * args.outputs,
                        .stride_b = args.shared_input ? 0 : args.batch * args.inputs,
                        .operands = args.dtype};
  auto const parts = plan_parts(tall_product(args));
  if (args.bias_gradient != nullptr && args.layers == 1 && parts.count == 1) {
    product.epilogue = CUBLASLT_EPILOGUE_BGRADA;
    product.bias = args.bias_gradient;
    return fused_product(stream, product);
  }
  product_in_parts(stream, product, parts, args.workspace);
  return false;
}

}  // namespace

void dense(CudaStream stream, DenseArgs const& args) {
  if (args.layers == 0 || args.batch == 0 || args.outputs == 0) {
    return;
  }
  if (args.activation == Activation::gelu_tanh) {
    gelu_dense(stream, args);
    return;
  }
  if (args.outputs == 1) {
    auto const row_bytes = args.inputs * static_cast<std::int64_t>(bytes_of(args.dtype));
    bool const aligned = row_bytes % alignof(Quad) == 0 && quads_fit(args.input, args.weight);
    dim3 const blocks(grid_for(args.batch, kBlockThreads / kWarpThreads),
                      static_cast<unsigned>(args.layers));
    with_real_type("dense: an input", args.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      dot_rows_kernel<T><<<blocks, kBlockThreads, 0, stream.handle>>>(args, aligned);
    });
    check_launch("dense (one output)");
    return;
  }
  bool complete = false;
  if (args.inputs == 0) {
    set_to_zero(stream, args.output, args.layers * args.batch * args.outputs, args.dtype);
  } else {
    complete = fused_product(stream, product_of(args));
  }
  if (!complete) {
    auto const blocks = grid_for(args.layers * args.batch * args.outputs, kBlockThreads);
    with_real_type("dense: an output", args.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      bias_activation_kernel<T><<<blocks, kBlockThreads, 0, stream.handle>>>(args);
    });
    check_launch("dense (bias and activation)");
  }
}

void dense_input_gradient(CudaStream stream, DenseInputGradientArgs const& args) {
  auto const count = args.layers * args.batch * args.inputs;
  if (count == 0) {
    return;
  }
  if (args.outputs == 0 && args.added != nullptr) {
    check_cuda(cudaMemcpyAsync(args.input_gradient,
                               args.added,
                               static_cast<std::size_t>(count) * bytes_of(args.dtype),
                               cudaMemcpyDeviceToDevice,
                               stream.handle),
               "cudaMemcpyAsync");
  } else if (args.outputs == 0) {
    set_to_zero(stream, args.input_gradient, count, args.dtype);
  } else if (args.outputs == 1) {
    with_real_type("dense_input_gradient: a gradient", args.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      outer_product_kernel<T>
          <<<grid_for(count, kBlockThreads), kBlockThreads, 0, stream.handle>>>(args);
    });
    check_launch("dense_input_gradient (one output)");
  } else {
    (void)fused_product(stream,
                        {.a = args.weight,
                         .b = args.output_gradient,
                         .d = args.input_gradient,
                         .m = args.inputs,
                         .n = args.batch,
                         .k = args.outputs,
                         .transpose_a = CUBLAS_OP_T,
                         .batch = args.layers,
                         .stride_a = args.inputs * args.outputs,
                         .stride_b = args.batch * args.outputs,
                         .added = args.added,
                         .operands = args.dtype,
                         .result = args.dtype});
  }
}

std::size_t dense_weight_gradient_workspace_bytes(CudaStream, DenseWeightGradientArgs const& args) {
  return args.outputs > 1 ? workspace_bytes(tall_product(args)) : 0;
}

void dense_weight_gradient(CudaStream stream, DenseWeightGradientArgs const& args) {
  if (args.layers == 0 || args.outputs == 0) {
    return;
  }
  if (args.batch == 0) {
    set_to_zero(stream, args.weight_gradient, args.layers * args.inputs * args.outputs);
    if (args.bias_gradient != nullptr) {
      set_to_zero(stream, args.bias_gradient, args.layers * args.outputs);
    }
    return;
  }
  if (args.outputs == 1) {
    column_sums(stream,
                {.matrix = args.input,
                 .weights = args.output_gradient,
                 .rows = args.batch,
                 .columns = args.inputs,
                 .sums = args.weight_gradient,
                 .weight_sum = args.bias_gradient,
                 .layers = args.layers,
                 .shared_matrix = args.shared_input,
                 .dtype = args.dtype});
    return;
  }
  bool const bias_is_done = args.inputs > 0 && weight_product(stream, args);
  if (args.bias_gradient != nullptr && !bias_is_done) {
    column_sums(stream,
                {.matrix = args.output_gradient,
                 .rows = args.batch,
                 .columns = args.outputs,
                 .sums = args.bias_gradient,
                 .layers = args.layers,
                 .dtype = args.dtype});
  }
}

}  // namespace msstream::ops::kernels
