// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/activation.hpp>
#include <msstream/ops/concat.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/differentiable/arithmetic.hpp>
#include <msstream/step/differentiable/attention.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/differentiable/layer_norm.hpp>
#include <msstream/step/differentiable/matmul.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/differentiable/mixture.hpp>
#include <msstream/step/differentiable/recorded.hpp>
#include <msstream/step/differentiable/reduce.hpp>
#include <msstream/step/differentiable/rows.hpp>
#include <msstream/step/differentiable/segment.hpp>
#include <msstream/step/differentiable/softmax.hpp>
#include <msstream/step/differentiable/table_batch.hpp>
#include <msstream/step/differentiable/unary.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

/// The operations of ops/ with a tape as first argument. The results are the same; the tape records
/// the backward.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> dense(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  auto output = dense(input, weight, bias, activation, issued_at);
  tape.record(
      "dense",
      output,
      [input, weight, bias, output, activation, issued_at](GradientTape<R>& playing,
                                                           Tensor<float, R> const& gradient) {
        auto const gradients = dense_gradient(
            input, weight, output, activation, gradient, playing.wants_gradient(input), issued_at);
        if (gradients.input) {
          playing.add_gradient(input, *gradients.input, issued_at);
        }
        playing.add_gradient(weight, gradients.weight, issued_at);
        playing.add_gradient(bias, gradients.bias, issued_at);
      },
      issued_at);
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  auto packed = concat(blocks, issued_at);
  tape.record(
      "concat",
      packed,
      [blocks, issued_at](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        std::vector<std::int64_t> widths;
        std::vector<bool> wanted;
        for (auto const& block : blocks) {
          widths.push_back(block.shape()[1]);
          wanted.push_back(playing.wants_gradient(block));
        }
        auto const parts =
            split(gradient, std::span<std::int64_t const>(widths), wanted, issued_at);
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          if (parts[i]) {
            playing.add_gradient(blocks[i], *parts[i], issued_at);
          }
        }
      },
      issued_at);
  return packed;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& terms,
    std::source_location issued_at = std::source_location::current()) {
  auto total = add(terms, issued_at);
  tape.record(
      "add",
      total,
      [terms, issued_at](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        for (auto const& term : terms) {
          if (playing.wants_gradient(term)) {
            playing.add_gradient(term, gradient, issued_at);
          }
        }
      },
      issued_at);
  return total;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> scale(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "scale",
      input,
      scale(input, factor, issued_at),
      [factor, issued_at](auto const& gradient) { return scale(gradient, factor, issued_at); },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  auto const output = sigmoid(input, issued_at);
  return detail::recorded(
      tape,
      "sigmoid",
      input,
      output,
      [output, issued_at](auto const& gradient) {
        return sigmoid_gradient(output, gradient, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "sum",
      input,
      sum(input, issued_at),
      [shape = input.shape(), issued_at](auto const& gradient) {
        return broadcast(gradient, 1.0F, shape, issued_at);
      },
      issued_at);
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    GradientTape<R>& tape,
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::recorded(
      tape,
      "mean",
      input,
      mean(input, issued_at),
      [shape = input.shape(), issued_at](auto const& gradient) {
        return broadcast(gradient, 1.0F / static_cast<float>(shape.count()), shape, issued_at);
      },
      issued_at);
}

/// Like ops::bce_with_logits(), but the tape records the backward. Returns only the losses, in the
/// logits' shape. The labels get no gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> bce_with_logits(
    GradientTape<R>& tape,
    Tensor<float, R> const& logits,
    Tensor<float, R> const& labels,
    std::source_location issued_at = std::source_location::current()) {
  auto const result = bce_with_logits(logits, labels, issued_at);
  return detail::recorded(
      tape,
      "bce_with_logits",
      logits,
      result.losses,
      [gradients = result.gradients, issued_at](auto const& gradient) {
        return multiply(gradients, gradient, issued_at);
      },
      issued_at);
}

/// Returns the mean over the batch of bce_with_logits(), a scalar loss.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean_bce_with_logits(
    GradientTape<R>& tape,
    Tensor<float, R> const& logits,
    Tensor<float, R> const& labels,
    std::source_location issued_at = std::source_location::current()) {
  auto const result = bce_with_logits(logits, labels, issued_at);
  auto const factor = 1.0F / static_cast<float>(result.losses.count());
  return detail::recorded(
      tape,
      "mean_bce_with_logits",
      logits,
      mean(result.losses, issued_at),
      [gradients = result.gradients, factor, issued_at](auto const& gradient) {
        return scale_by_scalar(gradients, gradient, factor, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops
