// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/ops/precision.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>
#include <vector>

/// Differentiable operations on tensors of float32, float16 and bfloat16, with a GradientTape or
/// NoTape as first argument. The type of the input is the type in which an operation computes its
/// products, and that of its output and of its output's gradient. Weights are float32, converted to
/// that type in each step, and their gradients are float32: an optimizer sees no half precision.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable operations of this header, compiled once for all types
// and runtimes. `tape` is null for NoTape.

[[nodiscard]] AnyTensor cast(AnyTape* tape,
                             AnyTensor const& input,
                             DType to,
                             std::source_location issued_at);
[[nodiscard]] AnyTensor dense(AnyTape* tape,
                              AnyTensor const& input,
                              Floats const& weight,
                              Floats const& bias,
                              Activation activation,
                              std::source_location issued_at);
[[nodiscard]] AnyTensor dense_fp8(AnyTape* tape,
                                  AnyTensor const& input,
                                  Floats const& weight,
                                  Floats const& bias,
                                  Activation activation,
                                  std::source_location issued_at);
[[nodiscard]] AnyTensor cross_layer(AnyTape* tape,
                                    AnyTensor const& first,
                                    AnyTensor const& input,
                                    CrossWeights<AnyRuntime> const& weights,
                                    std::source_location issued_at);
[[nodiscard]] AnyTensor cross_network(AnyTape* tape,
                                      AnyTensor const& input,
                                      std::vector<CrossWeights<AnyRuntime>> const& layers,
                                      std::source_location issued_at);
[[nodiscard]] AnyTensor dot_interaction(AnyTape* tape,
                                        AnyTensor const& dense,
                                        AnyTensor const& embeddings,
                                        std::source_location issued_at);
[[nodiscard]] AnyTensor factorization_machine(AnyTape* tape,
                                              AnyTensor const& embeddings,
                                              std::source_location issued_at);
[[nodiscard]] AnyTensor concat_halves(AnyTape* tape,
                                      std::vector<AnyTensor> const& blocks,
                                      std::source_location issued_at);

/// Returns the tensors without their types.
template <RealElement T, Runtime R>
[[nodiscard]] std::vector<AnyTensor> any_tensors(std::vector<Tensor<T, R>> const& tensors) {
  std::vector<AnyTensor> untyped;
  for (auto const& tensor : tensors) {
    untyped.push_back(tensor.any());
  }
  return untyped;
}

[[nodiscard]] AnyTensor add_halves(AnyTape* tape,
                                   std::vector<AnyTensor> const& terms,
                                   std::source_location issued_at);
[[nodiscard]] AnyTensor add_halves(AnyTape* tape,
                                   AnyTensor const& left,
                                   AnyTensor const& right,
                                   std::source_location issued_at);
[[nodiscard]] AnyTensor multiply_halves(AnyTape* tape,
                                        AnyTensor const& left,
                                        AnyTensor const& right,
                                        std::source_location issued_at);

[[nodiscard]] AnyTensor mix_any_experts(AnyTape* tape,
                                        std::vector<AnyTensor> const& experts,
                                        std::vector<GateLogits<AnyRuntime>> const& gates,
                                        std::source_location issued_at);

/// The functions of one element that have a form for half precision.
enum class HalfFunction : std::uint8_t { relu, gelu, gelu_tanh, silu, tanh, sigmoid, clamp };
/// Applies a function; `low` and `high` are the bounds of clamp.
[[nodiscard]] AnyTensor half_function(AnyTape* tape,
                                      HalfFunction function,
                                      AnyTensor const& input,
                                      std::source_location issued_at,
                                      float low = 0.0F,
                                      float high = 0.0F);
/// `lengths` may be null.
[[nodiscard]] AnyTensor softmax_halves(AnyTape* tape,
                                       AnyTensor const& input,
                                       TensorOf<std::int64_t> const* lengths,
                                       std::source_location issued_at);

}  // namespace detail

/// Converts a tensor as cast() without a tape does. The gradient of the input is the output's
/// gradient, converted to the type of the input.
template <RealElement Out, RealElement In, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<Out, R> cast(
    Tape& tape,
    Tensor<In, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::cast(detail::tape_or_null(tape), input.any(), dtype_of<Out>, issued_at)};
}

/// Computes dense() of the input's type. Weight and bias are converted to that type first, in one
/// launch, and their gradients are float32.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> dense(Tape& tape,
                                 Tensor<T, R> const& input,
                                 Tensor<float, R> const& weight,
                                 Tensor<float, R> const& bias,
                                 Activation activation = Activation::none,
                                 std::source_location issued_at = std::source_location::current()) {
  return {
      msstream::detail::OfKnownType(),
      detail::dense(detail::tape_or_null(tape), input.any(), weight, bias, activation, issued_at)};
}

/// Computes dense_fp8() of the input's type, from the weight as it is and the bias converted to
/// that type. The backward quantises the output's gradient to e5m2, whose numbers reach further,
/// with a scale of its own, and multiplies it by what the forward has quantised: the gradients of
/// input and weight have the products of 8-bit floats, too. The gradient of the input has the
/// input's type; those of weight and bias are float32. The gradient of the bias is not quantised.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> dense_fp8(
    Tape& tape,
    Tensor<T, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dense_fp8(
              detail::tape_or_null(tape), input.any(), weight, bias, activation, issued_at)};
}

/// Computes cross_layer() of the input's type; the tape records the backward.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> cross_layer(
    Tape& tape,
    Tensor<T, R> const& first,
    Tensor<T, R> const& input,
    CrossWeights<R> const& weights,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::cross_layer(
              detail::tape_or_null(tape), first.any(), input.any(), weights, issued_at)};
}

/// Computes cross_network() of the input's type; the tape records the backward as one operation.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> cross_network(
    Tape& tape,
    Tensor<T, R> const& input,
    std::vector<CrossWeights<R>> const& layers,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::cross_network(
              detail::tape_or_null(tape), input.any(), {layers.begin(), layers.end()}, issued_at)};
}

/// Computes dot_interaction() of vectors of half precision; the tape records the backward.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> dot_interaction(
    Tape& tape,
    Tensor<T, R> const& dense,
    Tensor<T, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dot_interaction(
              detail::tape_or_null(tape), dense.any(), embeddings.any(), issued_at)};
}

/// Computes factorization_machine() of the embeddings' type; the tape records the backward.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> factorization_machine(
    Tape& tape,
    Tensor<T, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::factorization_machine(detail::tape_or_null(tape), embeddings.any(), issued_at)};
}

/// Concatenates matrices of half precision side by side: block k [rows, width k] → [rows, sum of
/// widths]. One launch if all widths are even and all blocks begin at multiples
/// of 4 bytes. Asynchronous; capture-safe. Throws
/// std::invalid_argument if there are no blocks, or if they are not matrices of one number of rows.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> concat(
    Tape& tape,
    std::vector<Tensor<T, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  return {
      msstream::detail::OfKnownType(),
      detail::concat_halves(detail::tape_or_null(tape), detail::any_tensors(blocks), issued_at)};
}

/// Returns left + right of half precision, broadcast as in NumPy, computed in float32 and rounded
/// once. The gradient of an operand that was broadcast is added in float32 and rounded once. One
/// launch. Asynchronous; capture-safe. Throws std::invalid_argument if the shapes do not broadcast.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> add(Tape& tape,
                               Tensor<T, R> const& left,
                               Tensor<T, R> const& right,
                               std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::add_halves(detail::tape_or_null(tape), left.any(), right.any(), issued_at)};
}
/// Returns the sum of tensors of half precision of one shape, added from first to last in float32
/// and rounded once, or once for each 32 terms. Throws std::invalid_argument if there are no terms
/// or if their shapes differ.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> add(Tape& tape,
                               std::vector<Tensor<T, R>> const& terms,
                               std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::add_halves(detail::tape_or_null(tape), detail::any_tensors(terms), issued_at)};
}
/// Returns left * right of half precision, broadcast as in NumPy, computed in float32 and rounded
/// once, as are its gradients. One launch. Asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not broadcast.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> multiply(
    Tape& tape,
    Tensor<T, R> const& left,
    Tensor<T, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::multiply_halves(detail::tape_or_null(tape), left.any(), right.any(), issued_at)};
}

/// Returns the output of mix_experts() of experts of half precision, [gates, batch, width], without
/// the weights; the tape records the backward. Logits, weights and sums are float32; the output and
/// the gradients of experts are rounded once.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> mix_experts(
    Tape& tape,
    std::vector<Tensor<T, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::mix_any_experts(detail::tape_or_null(tape),
                                  detail::any_tensors(experts),
                                  detail::untyped(gates),
                                  issued_at)};
}

/// Applies a function to each element of a tensor of half precision, computed in float32: relu.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> relu(Tape& tape,
                                Tensor<T, R> const& input,
                                std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::relu, input.any(), issued_at)};
}
/// Applies gelu to each element of a tensor of half precision, computed in float32.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> gelu(Tape& tape,
                                Tensor<T, R> const& input,
                                std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::gelu, input.any(), issued_at)};
}
/// Applies the tanh approximation of gelu to each element, computed in float32.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> gelu_tanh(
    Tape& tape,
    Tensor<T, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::gelu_tanh, input.any(), issued_at)};
}
/// Applies silu to each element of a tensor of half precision, computed in float32.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> silu(Tape& tape,
                                Tensor<T, R> const& input,
                                std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::silu, input.any(), issued_at)};
}
/// Applies tanh to each element of a tensor of half precision, computed in float32.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> tanh(Tape& tape,
                                Tensor<T, R> const& input,
                                std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::tanh, input.any(), issued_at)};
}
/// Applies sigmoid to each element of a tensor of half precision, computed in float32.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> sigmoid(
    Tape& tape,
    Tensor<T, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(
              detail::tape_or_null(tape), detail::HalfFunction::sigmoid, input.any(), issued_at)};
}
/// Limits each element of a tensor of half precision to [low, high], which are rounded to T. The
/// gradient is that of the output within the bounds, and 0 beyond them. NaN stays NaN. Throws
/// std::invalid_argument unless low <= high.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> clamp(Tape& tape,
                                 Tensor<T, R> const& input,
                                 float low,
                                 float high,
                                 std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::half_function(detail::tape_or_null(tape),
                                detail::HalfFunction::clamp,
                                input.any(),
                                issued_at,
                                low,
                                high)};
}

/// Computes softmax() over the last dimension of a tensor of half precision, in float32, rounded
/// once, as is its gradient. One launch each. Asynchronous; capture-safe. Throws
/// std::invalid_argument for a scalar.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> softmax(
    Tape& tape,
    Tensor<T, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::softmax_halves(detail::tape_or_null(tape), input.any(), nullptr, issued_at)};
}
/// Like softmax(tape, input), over the first columns of rows alone, whose number `lengths` says, as
/// the softmax() of float32 with lengths has it.
template <HalfElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> softmax(
    Tape& tape,
    Tensor<T, R> const& input,
    Tensor<std::int64_t, R> const& lengths,
    std::source_location issued_at = std::source_location::current()) {
  msstream::detail::TensorOf<std::int64_t> const of_rows(lengths);
  return {msstream::detail::OfKnownType(),
          detail::softmax_halves(detail::tape_or_null(tape), input.any(), &of_rows, issued_at)};
}

}  // namespace msstream::ops

namespace msstream {

namespace detail {

/// A precision, and the place of the call that names it.
struct PrecisionAt {
  PrecisionAt(Precision chosen,  // NOLINT(google-explicit-constructor): a precision is one
              std::source_location at = std::source_location::current())
      : precision(chosen), issued_at(at) {}

  Precision precision;
  std::source_location issued_at;
};

}  // namespace detail

/// Returns function(inputs…) in a precision: converts the inputs of float32 to its type, calls the
/// function with them, and converts its result to float32, each with the tape. In Precision::fp32
/// nothing is converted. What the function captures, such as weights of layer_norm(), stays as it
/// is. `function` is generic in the element type of its arguments, and returns a tensor of that
/// type:
///
///     auto const mixed = ms::in_precision(
///         tape,
///         ms::Precision::bf16,
///         [&](auto const& q, auto const& k, auto const& v) { return ops::attention(tape, q, k, v);
///         }, queries, keys, values);
///
/// `tape` is a GradientTape, or no_tape. Each input is converted by a launch of its own.
/// Asynchronous; capture-safe. Throws what the function throws.
template <class Tape, class Function, Runtime R, class... Others>
[[nodiscard]] Tensor<float, R> in_precision(Tape& tape,
                                            detail::PrecisionAt const& in,
                                            Function&& function,
                                            Tensor<float, R> const& first,
                                            Others const&... others) {
  return with_precision(in.precision, [&](auto type) {
    using T = typename decltype(type)::type;
    auto const output = function(ops::cast<T>(tape, first, in.issued_at),
                                 ops::cast<T>(tape, others, in.issued_at)...);
    return ops::cast<float>(tape, output, in.issued_at);
  });
}

}  // namespace msstream
