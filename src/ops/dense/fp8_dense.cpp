// SPDX-License-Identifier: Apache-2.0
#include "ops/dense/fp8_dense.hpp"

#include "mixed/quantise.hpp"
#include "ops/common/workspace.hpp"
#include "ops/dense/bias_gradient.hpp"
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {
namespace {

using kernels::Fp8Format;
using kernels::padded_to_fp8;

/// A quantised matrix and its transpose, which have one scale.
struct QuantisedPair {
  std::optional<QuantisedMatrix> plain;
  std::optional<QuantisedMatrix> transposed;
};

struct WantedCopies {
  bool plain;
  bool transposed;
};

[[nodiscard]] QuantisedPair quantise_matrix(AnyTensor const& matrix,
                                            Fp8Format format,
                                            WantedCopies wanted,
                                            std::source_location issued_at) {
  auto const& device = matrix.device();
  auto const rows = matrix.shape()[0];
  auto const columns = matrix.shape()[1];
  AnyTensor const scales(device, DType::float32, Shape{kernels::kFp8Scales});
  auto written = writes(scales);
  auto const copy = [&](std::int64_t of_rows, std::int64_t of_columns) {
    Shape const padded{padded_to_fp8(of_rows), padded_to_fp8(of_columns)};
    AnyTensor const codes(device, DType::uint8, padded);
    written.add(codes);
    return QuantisedMatrix{codes, scales, format, of_rows, of_columns};
  };
  QuantisedPair pair;
  if (wanted.plain) {
    pair.plain.emplace(copy(rows, columns));
  }
  if (wanted.transposed) {
    pair.transposed.emplace(copy(columns, rows));
  }
  auto const codes_of = [](std::optional<QuantisedMatrix> const& made) {
    return made ? made->codes.data_as<std::uint8_t>() : nullptr;
  };
  kernels::QuantiseArgs const args{.matrix = matrix.data(),
                                   .plain = codes_of(pair.plain),
                                   .transposed = codes_of(pair.transposed),
                                   .scales = scales.data_as<float>(),
                                   .rows = rows,
                                   .columns = columns,
                                   .format = format,
                                   .dtype = matrix.dtype()};
  issue(
      "quantise",
      reads(matrix),
      written,
      [args](auto stream) { kernels::quantise(stream, args); },
      {},
      issued_at);
  return pair;
}

[[nodiscard]] kernels::Fp8Matrix factor_of(QuantisedMatrix const& matrix) {
  return {matrix.codes.data_as<std::uint8_t>(), matrix.scales.data_as<float>(), matrix.format};
}

/// Returns activation(left · rightᵀ + bias) in a type. `bias` may be null.
[[nodiscard]] AnyTensor quantised_product(char const* name,
                                          QuantisedMatrix const& left,
                                          QuantisedMatrix const& right,
                                          AnyTensor const* bias,
                                          Activation activation,
                                          DType dtype,
                                          std::source_location issued_at) {
  auto const& device = left.codes.device();
  AnyTensor const result(device, dtype, Shape{left.rows, right.rows});
  kernels::Fp8ProductArgs args{.left = factor_of(left),
                               .right = factor_of(right),
                               .bias = bias != nullptr ? bias->data() : nullptr,
                               .result = result.data(),
                               .rows = left.rows,
                               .columns = right.rows,
                               .inner = left.columns,
                               .activation = activation,
                               .dtype = dtype};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::fp8_product_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  auto read = reads(left.codes, left.scales);
  read.add(right.codes);
  read.add(right.scales);
  if (bias != nullptr) {
    read.add(*bias);
  }
  issue(
      name,
      read,
      workspace.with(writes(result)),
      [args](auto stream) { kernels::fp8_product(stream, args); },
      {},
      issued_at);
  return result;
}

/// Returns activation(input · weight + bias) in the type of the bias, and what the gradient of the
/// activation is computed from. `weight` is transposed.
[[nodiscard]] AnyDenseOutput activated_product(QuantisedMatrix const& input,
                                               QuantisedMatrix const& weight,
                                               AnyTensor const& bias,
                                               Activation activation,
                                               std::source_location issued_at) {
  bool const is_gelu = activation == Activation::gelu_tanh;
  auto saved = quantised_product("dense_fp8",
                                 input,
                                 weight,
                                 &bias,
                                 is_gelu ? Activation::none : activation,
                                 bias.dtype(),
                                 issued_at);
  auto output =
      is_gelu ? unary("gelu_tanh", kernels::UnaryFunction::gelu_tanh, saved, issued_at) : saved;
  return {std::move(output), std::move(saved)};
}

void require_dense(char const* operation,
                   AnyTensor const& input,
                   Shape const& weight,
                   AnyTensor const& bias) {
  require(input.shape().rank() == 2 && weight.rank() == 2 && input.shape()[1] == weight[0] &&
              bias.count() == weight[1],
          "{}: input {}, weight {}, bias {}; expected [batch, inputs], [inputs, outputs], "
          "[outputs]",
          operation,
          input.shape(),
          weight,
          bias.shape());
  require(bias.dtype() == input.dtype(),
          "{}: input of {}, bias of {}; expected one type",
          operation,
          name_of(input.dtype()),
          name_of(bias.dtype()));
}

}  // namespace

bool has_fp8_products(Shape const& weight) {
  return weight.rank() != 2 ||
         (weight[0] >= kernels::kFp8Multiple && weight[1] >= kernels::kFp8Multiple);
}

Fp8DenseOutput dense_fp8_for_gradient(AnyTensor const& input,
                                      AnyTensor const& weight,
                                      AnyTensor const& bias,
                                      Activation activation,
                                      bool with_operands,
                                      std::source_location issued_at) {
  require_dense("dense_fp8", input, weight.shape(), bias);
  auto of_input = quantise_matrix(
      input, Fp8Format::e4m3, {.plain = true, .transposed = with_operands}, issued_at);
  auto of_weight = quantise_matrix(
      weight, Fp8Format::e4m3, {.plain = with_operands, .transposed = true}, issued_at);
  auto made =
      activated_product(*of_input.plain, *of_weight.transposed, bias, activation, issued_at);
  if (!with_operands) {
    return {std::move(made.output), std::nullopt};
  }
  return {std::move(made.output),
          Fp8DenseOperands{
              *std::move(of_input.transposed), *std::move(of_weight.plain), std::move(made.saved)}};
}

AnyTensor dense_fp8(AnyTensor const& input,
                    AnyTensor const& weight,
                    AnyTensor const& bias,
                    Activation activation,
                    std::source_location issued_at) {
  if (!has_fp8_products(weight.shape())) {
    return dense_for_gradient(input, weight, bias, activation, issued_at).output;
  }
  require(weight.dtype() == input.dtype(),
          "dense_fp8: input of {}, weight of {}; expected one type",
          name_of(input.dtype()),
          name_of(weight.dtype()));
  return dense_fp8_for_gradient(input, weight, bias, activation, false, issued_at).output;
}

QuantisedWeight quantised_weight(AnyTensor const& weight, std::source_location issued_at) {
  require(weight.shape().rank() == 2 && has_fp8_products(weight.shape()),
          "Fp8Weight: a weight {}; expected [inputs, outputs] of {} each or more",
          weight.shape(),
          kernels::kFp8Multiple);
  auto made =
      quantise_matrix(weight, Fp8Format::e4m3, {.plain = false, .transposed = true}, issued_at);
  auto& transposed = made.transposed.value();
  return {std::move(transposed.codes),
          std::move(transposed.scales),
          transposed.columns,
          transposed.rows};
}

AnyTensor dense_fp8(AnyTensor const& input,
                    QuantisedWeight const& weight,
                    AnyTensor const& bias,
                    Activation activation,
                    std::source_location issued_at) {
  require_dense("dense_fp8", input, Shape{weight.inputs, weight.outputs}, bias);
  auto const of_input =
      quantise_matrix(input, Fp8Format::e4m3, {.plain = true, .transposed = false}, issued_at);
  return activated_product(
             *of_input.plain,
             {weight.codes, weight.scales, Fp8Format::e4m3, weight.outputs, weight.inputs},
             bias,
             activation,
             issued_at)
      .output;
}

AnyDenseGradients dense_fp8_gradient(Fp8DenseOperands const& operands,
                                     Activation activation,
                                     AnyTensor const& output_gradient,
                                     bool with_input_gradient,
                                     std::source_location issued_at) {
  auto const& device = output_gradient.device();
  require(output_gradient.shape() == operands.saved.shape() &&
              output_gradient.dtype() == operands.saved.dtype(),
          "dense_fp8_gradient: an output {} of {}, its gradient {} of {}",
          operands.saved.shape(),
          name_of(operands.saved.dtype()),
          output_gradient.shape(),
          name_of(output_gradient.dtype()));
  Floats const bias_gradient(device, Shape{operands.weight.columns});
  auto const gradient =
      sum_gradient(operands.saved, activation, output_gradient, bias_gradient, issued_at);
  auto const quantised = quantise_matrix(
      gradient, Fp8Format::e5m2, {.plain = with_input_gradient, .transposed = true}, issued_at);
  std::optional<AnyTensor> input_gradient;
  if (with_input_gradient) {
    input_gradient = quantised_product("dense_fp8_input_gradient",
                                       *quantised.plain,
                                       operands.weight,
                                       nullptr,
                                       Activation::none,
                                       gradient.dtype(),
                                       issued_at);
  }
  Floats weight_gradient(quantised_product("dense_fp8_weight_gradient",
                                           operands.input,
                                           *quantised.transposed,
                                           nullptr,
                                           Activation::none,
                                           DType::float32,
                                           issued_at));
  return {std::move(input_gradient), std::move(weight_gradient), bias_gradient};
}

}  // namespace msstream::ops::detail
