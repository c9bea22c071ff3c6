// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/dense.hpp"
#include "mixed/cross.hpp"
#include "mixed/cross_products.hpp"
#include "mixed/summed_gradients.hpp"

namespace msstream::ops::kernels {

/// The functions of cross_products.hpp as a product and a pass, on a stream of either runtime.
template <class Stream>
void unfused_cross_forward(Stream stream, CrossForwardArgs const& args) {
  auto const& shape = args.shape;
  auto* const projected = args.projected != nullptr ? args.projected : args.output;
  dense(stream,
        DenseArgs{.input = args.hidden,
                  .weight = args.up,
                  .bias = args.bias,
                  .output = projected,
                  .batch = shape.rows,
                  .inputs = shape.inner,
                  .outputs = shape.columns,
                  .activation = Activation::none,
                  .dtype = shape.dtype});
  cross(stream,
        CrossArgs{.first = args.first,
                  .projected = projected,
                  .input = args.input,
                  .output = args.output,
                  .count = shape.rows * shape.columns,
                  .dtype = shape.dtype});
}

/// Computes to = gradient · downᵀ + added; `added` may be null.
template <class Stream>
void unfused_cross_product(Stream stream,
                           void const* gradient,
                           void const* down,
                           void const* added,
                           void* to,
                           CrossShape const& shape) {
  dense_input_gradient(stream,
                       DenseInputGradientArgs{.output_gradient = gradient,
                                              .weight = down,
                                              .input_gradient = to,
                                              .batch = shape.rows,
                                              .inputs = shape.columns,
                                              .outputs = shape.inner,
                                              .dtype = shape.dtype,
                                              .added = added});
}

template <class Stream>
void unfused_cross_gradient(Stream stream, CrossGradientArgs const& args) {
  unfused_cross_product(stream, args.gradient, args.down, args.added, args.sum, args.shape);
  cross_gradient_sums(stream,
                      CrossSumsArgs{.first = args.first,
                                    .projected = nullptr,
                                    .output_gradient = args.sum,
                                    .first_gradient = nullptr,
                                    .projected_gradient = args.projected,
                                    .sums = args.column_sums,
                                    .rows = args.shape.rows,
                                    .columns = args.shape.columns,
                                    .dtype = args.shape.dtype});
}

template <class Stream>
void unfused_cross_last_gradient(Stream stream, CrossLastGradientArgs const& args) {
  unfused_cross_product(stream, args.gradient, args.down, nullptr, args.input_gradient, args.shape);
  CrossSumArgs sum{.sum = args.input_gradient,
                   .added = args.layers[0].output_gradient,
                   .layers = {},
                   .count = args.shape.rows * args.shape.columns,
                   .dtype = args.shape.dtype};
  for (int i = 0; i < kMostCrossLayers; ++i) {
    sum.layers[i] = args.layers[i];
  }
  cross_sum(stream, sum);
}

}  // namespace msstream::ops::kernels
