// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixed/fp8_product.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

/// Dense layers whose products are of 8-bit floats, for ops::dense_fp8().
namespace msstream::ops::detail {

/// A quantised matrix [rows, columns], padded with zeros: see kernels::quantise().
struct QuantisedMatrix {
  AnyTensor codes;   ///< uint8
  AnyTensor scales;  ///< float32 [kernels::kFp8Scales]
  kernels::Fp8Format format;
  std::int64_t rows;  ///< without padding
  std::int64_t columns;
};

/// The data from which the gradients of a dense layer of 8-bit floats are computed from.
struct Fp8DenseOperands {
  QuantisedMatrix input;   ///< transposed, [inputs, batch]
  QuantisedMatrix weight;  ///< [inputs, outputs]
  AnyTensor saved;         ///< input · weight + bias for gelu_tanh, otherwise the output
};

struct Fp8DenseOutput {
  AnyTensor output;
  std::optional<Fp8DenseOperands> operands;  ///< set if they were asked for
};

/// Returns whether a dense layer has enough inputs and outputs for products of 8-bit floats: 16 of
/// each. Smaller ones take as long to quantise as to compute.
[[nodiscard]] bool has_fp8_products(Shape const& weight);

/// Returns activation(input · weight + bias) for input [batch, inputs], weight [inputs, outputs] of
/// float32 or of the input's type, and bias [outputs] of the input's type, whatever their sizes,
/// and the operands of the gradients if `with_operands`. Throws std::invalid_argument for other
/// shapes and types.
[[nodiscard]] Fp8DenseOutput dense_fp8_for_gradient(AnyTensor const& input,
                                                    AnyTensor const& weight,
                                                    AnyTensor const& bias,
                                                    Activation activation,
                                                    bool with_operands,
                                                    std::source_location issued_at);

/// Returns the gradients of dense_fp8_for_gradient(). The gradient of the bias is not quantised.
[[nodiscard]] AnyDenseGradients dense_fp8_gradient(Fp8DenseOperands const& operands,
                                                   Activation activation,
                                                   AnyTensor const& output_gradient,
                                                   bool with_input_gradient,
                                                   std::source_location issued_at);

}  // namespace msstream::ops::detail
