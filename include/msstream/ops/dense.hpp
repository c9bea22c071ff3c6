// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

namespace detail {

struct AnyDenseOutput {
  AnyTensor output;
  AnyTensor saved;
};

// The implementation of dense_for_gradient(), compiled once for all types and runtimes.

[[nodiscard]] AnyDenseOutput dense_for_gradient(AnyTensor const& input,
                                                AnyTensor const& weight,
                                                AnyTensor const& bias,
                                                Activation activation,
                                                std::source_location issued_at);

}  // namespace detail

/// Returns activation(input · weight + bias): input [batch, inputs], weight [inputs, outputs], bias
/// [outputs] → [batch, outputs].
///
/// Computes several layers of one size in one launch if the operands are stacked: weight [layers,
/// inputs, outputs], bias [layers, outputs] → [layers, batch, outputs], from input [layers, batch,
/// inputs], or from one input [batch, inputs] for all layers. At most 65,535 layers.
///
/// T is float32, in the device's MatmulPrecision, or float16 or bfloat16, with sums in float32 that
/// are rounded once. CUDA uses cuBLASLt with the bias and the activation in its epilogue; the host
/// uses Eigen. On CUDA, gelu_tanh is one more launch in float32, whose digits the epilogue does not
/// keep, and for numbers of outputs that are no multiple of 8; and sums of half precision are
/// rounded twice, before and after the bias is added, if inputs or outputs are no multiple of 8.
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dense(Tensor<T, R> const& input,
                                 Tensor<T, R> const& weight,
                                 Tensor<T, R> const& bias,
                                 Activation activation = Activation::none,
                                 std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dense_for_gradient(input.any(), weight.any(), bias.any(), activation, issued_at)
              .output};
}

/// The output of a dense layer, and the tensor of its shape from which dense_gradient() computes
/// the gradient of the activation.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct DenseOutput {
  Tensor<T, R> output;  ///< of dense()
  Tensor<T, R> saved;   ///< input · weight + bias for gelu_tanh, otherwise `output` itself
};

/// Returns dense(), with the same bits, and what dense_gradient() needs of it.
template <RealElement T, Runtime R>
[[nodiscard]] DenseOutput<R, T> dense_for_gradient(
    Tensor<T, R> const& input,
    Tensor<T, R> const& weight,
    Tensor<T, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  auto both =
      detail::dense_for_gradient(input.any(), weight.any(), bias.any(), activation, issued_at);
  return {{msstream::detail::OfKnownType(), std::move(both.output)},
          {msstream::detail::OfKnownType(), std::move(both.saved)}};
}

/// The gradients of dense(): that of the input in the input's type, and those of weight and bias in
/// float32.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct DenseGradients {
  std::optional<Tensor<T, R>> input;  ///< [batch, inputs]; null if it is not wanted
  Tensor<float, R> weight;            ///< [inputs, outputs]
  Tensor<float, R> bias;              ///< [outputs]
};

namespace detail {

struct AnyDenseGradients {
  std::optional<AnyTensor> input;
  Floats weight;
  Floats bias;
};

// The implementation of dense_gradient(), compiled once for all types and runtimes.

[[nodiscard]] AnyDenseGradients dense_gradient(AnyTensor const& input,
                                               AnyTensor const& weight,
                                               AnyTensor const& saved,
                                               Activation activation,
                                               AnyTensor const& output_gradient,
                                               bool with_input_gradient,
                                               std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of dense(), from its operands, its output and the output's gradient. For
/// gelu_tanh `saved` is not the output but input · weight + bias: dense_for_gradient() returns it.
/// The gradient of the input is computed only if `with_input_gradient` is set. On CUDA, if the
/// batch is long and the weights are few, the sum over the batch is computed in parts, in a
/// workspace. Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if the shapes
/// do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] DenseGradients<R, T> dense_gradient(
    Tensor<T, R> const& input,
    Tensor<T, R> const& weight,
    Tensor<T, R> const& saved,
    Activation activation,
    Tensor<T, R> const& output_gradient,
    bool with_input_gradient,
    std::source_location issued_at = std::source_location::current()) {
  auto gradients = detail::dense_gradient(input.any(),
                                          weight.any(),
                                          saved.any(),
                                          activation,
                                          output_gradient.any(),
                                          with_input_gradient,
                                          issued_at);
  DenseGradients<R, T> result{{},
                              detail::typed<R>(std::move(gradients.weight)),
                              detail::typed<R>(std::move(gradients.bias))};
  if (gradients.input) {
    result.input.emplace(msstream::detail::OfKnownType(), *std::move(gradients.input));
  }
  return result;
}

namespace detail {

// The implementation of dense_fp8(), compiled once for all types and runtimes.

[[nodiscard]] AnyTensor dense_fp8(AnyTensor const& input,
                                  AnyTensor const& weight,
                                  AnyTensor const& bias,
                                  Activation activation,
                                  std::source_location issued_at);

}  // namespace detail

/// Returns dense() of one layer, input [batch, inputs], weight [inputs, outputs], bias [outputs] →
/// [batch, outputs], with products of 8-bit floats. Each call quantises input and weight, each with
/// one scale: it multiplies a matrix by 448 / (largest magnitude of its finite elements), 1 for a
/// matrix of zeros, and rounds its elements to e4m3, to nearest even. The scales stay on the
/// device. Sums of the products are float32, divided by the scales. Bias and activation are applied
/// in float32, and the result is rounded to T once; on CUDA twice if cuBLASLt cannot apply them.
///
/// An infinity or NaN of an operand becomes NaN, and so do the elements of the result that it is a
/// term of. A layer with fewer than 16 inputs or outputs is computed by dense() itself.
///
/// On CUDA the products need a GPU of compute capability 8.9. Tensor cores add them up with fewer
/// bits than float32 has, with an error within 2^-8 of the sum of the magnitudes. On other GPUs
/// the same numbers are multiplied as float16, which is slower than dense(). gelu_tanh is one more
/// launch, from sums that are rounded to T. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dense_fp8(
    Tensor<T, R> const& input,
    Tensor<T, R> const& weight,
    Tensor<T, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dense_fp8(input.any(), weight.any(), bias.any(), activation, issued_at)};
}

namespace detail {

/// The transpose of a weight as 8-bit floats, padded, and its scale.
struct QuantisedWeight {
  AnyTensor codes;   ///< uint8
  AnyTensor scales;  ///< float32
  std::int64_t inputs;
  std::int64_t outputs;
};

// The implementations of Fp8Weight and its dense_fp8(), compiled once for all types and runtimes.

[[nodiscard]] QuantisedWeight quantised_weight(AnyTensor const& weight,
                                               std::source_location issued_at);
[[nodiscard]] AnyTensor dense_fp8(AnyTensor const& input,
                                  QuantisedWeight const& weight,
                                  AnyTensor const& bias,
                                  Activation activation,
                                  std::source_location issued_at);

}  // namespace detail

/// A weight [inputs, outputs] that dense_fp8() has quantised once, for a served model: a byte for
/// each element. It does not follow later writes to the weight. Copies share the memory.
template <Runtime R = DefaultRuntime>
class Fp8Weight {
 public:
  /// Quantises a weight of at least 16 inputs and outputs. Asynchronous; capture-safe. Throws
  /// std::invalid_argument for another shape: dense() computes smaller layers.
  template <RealElement T>
  explicit Fp8Weight(Tensor<T, R> const& weight,
                     std::source_location issued_at = std::source_location::current())
      : quantised_(detail::quantised_weight(weight.any(), issued_at)) {}

  /// Returns the number of rows of the weight.
  [[nodiscard]] std::int64_t inputs() const noexcept { return quantised_.inputs; }
  /// Returns the number of columns of the weight.
  [[nodiscard]] std::int64_t outputs() const noexcept { return quantised_.outputs; }
  [[nodiscard]] detail::QuantisedWeight const& quantised() const noexcept { return quantised_; }

 private:
  detail::QuantisedWeight quantised_;
};

/// Returns dense_fp8(), with the same bits, by a weight that is quantised already: a call quantises
/// the input alone. Throws std::invalid_argument if the shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dense_fp8(
    Tensor<T, R> const& input,
    Fp8Weight<R> const& weight,
    Tensor<T, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dense_fp8(input.any(), weight.quantised(), bias.any(), activation, issued_at)};
}

}  // namespace msstream::ops
