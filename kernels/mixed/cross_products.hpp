// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

/// The products of cross layers with a layer's width of columns, each with the elementwise work
/// behind it. All matrices are row-major and of `dtype`: float32, float16 or bfloat16. Sums are
/// float32. On CUDA, each is one kernel where fuses_cross_products() says so, and otherwise a
/// product and a pass. Capture-safe.
namespace msstream::ops::kernels {

/// The sizes of a product [rows, inner] x [inner, columns].
struct CrossShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  DType dtype;
};

/// Computes projected = hidden · up + bias, rounded, and output = first * projected + input.
struct CrossForwardArgs {
  void const* hidden;  ///< [rows, inner]
  void const* up;      ///< [inner, columns]
  void const* bias;    ///< [columns]
  void const* first;   ///< [rows, columns]
  void const* input;   ///< [rows, columns]
  void* projected;     ///< [rows, columns], or null if it is not wanted
  void* output;        ///< [rows, columns]
  CrossShape shape;
};
void cross_forward(HostStream stream, CrossForwardArgs const& args);
void cross_forward(CudaStream stream, CrossForwardArgs const& args);

/// Computes sum = gradient · downᵀ + added, and projected = sum * first with its column sums: the
/// gradient of a layer's input, and from it that of what the layer before has projected. On CUDA
/// the product may be rounded before `added` is added.
struct CrossGradientArgs {
  void const* gradient;  ///< [rows, inner], of the hidden columns
  void const* down;      ///< [columns, inner]
  void const* added;     ///< [rows, columns]
  void const* first;     ///< [rows, columns]
  void* sum;             ///< [rows, columns]
  void* projected;       ///< [rows, columns]
  float* column_sums;    ///< [columns], of `projected` before it is rounded
  void* workspace;       ///< cross_gradient_workspace_bytes() bytes, aligned to 16
  CrossShape shape;
};
/// Returns the bytes of workspace that cross_gradient() needs, from `args.shape` alone.
std::size_t cross_gradient_workspace_bytes(HostStream stream, CrossGradientArgs const& args);
std::size_t cross_gradient_workspace_bytes(CudaStream stream, CrossGradientArgs const& args);
void cross_gradient(HostStream stream, CrossGradientArgs const& args);
void cross_gradient(CudaStream stream, CrossGradientArgs const& args);

/// The layers whose gradients one cross_last_gradient() adds up.
inline constexpr int kMostCrossLayers = 3;

/// Computes input_gradient = gradient · downᵀ, rounded, + the output gradient of the first layer +
/// the sum over the layers of output_gradient * projected: the gradient of a network's input, which
/// all its layers read, and the first one twice.
struct CrossLastGradientArgs {
  struct Layer {
    void const* output_gradient;  ///< [rows, columns], or null behind the last layer
    void const* projected;        ///< [rows, columns]
  };
  void const* gradient;            ///< [rows, inner], of the hidden columns of the first layer
  void const* down;                ///< [columns, inner], of the first layer
  Layer layers[kMostCrossLayers];  ///< at least one
  void* input_gradient;            ///< [rows, columns], no other array
  CrossShape shape;
};
void cross_last_gradient(HostStream stream, CrossLastGradientArgs const& args);
void cross_last_gradient(CudaStream stream, CrossLastGradientArgs const& args);

/// Adds to `sum` the products of layers: sum = sum + added + the sum of output_gradient *
/// projected, rounded once. `added` may be null.
struct CrossSumArgs {
  void* sum;  ///< [count]
  void const* added;
  CrossLastGradientArgs::Layer layers[kMostCrossLayers];
  std::int64_t count;
  DType dtype;
};
void cross_sum(HostStream stream, CrossSumArgs const& args);
void cross_sum(CudaStream stream, CrossSumArgs const& args);

}  // namespace msstream::ops::kernels
