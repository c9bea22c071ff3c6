// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include <span>
#include <utility>
#include <vector>

/// The operations of ops/ with a tape as first argument: the same results, and the backward
/// recorded.
namespace msstream::ops {

template <Runtime R>
[[nodiscard]] Tensor<float, R> dense(GradientTape<R>& tape,
                                     Tensor<float, R> const& input,
                                     Tensor<float, R> const& weight,
                                     Tensor<float, R> const& bias,
                                     Activation activation = Activation::none) {
  auto output = dense(input, weight, bias, activation);
  tape.record("dense",
              output,
              [input, weight, bias, output, activation](GradientTape<R>& playing,
                                                        Tensor<float, R> const& gradient) {
                auto const gradients = dense_gradient(
                    input, weight, output, activation, gradient, playing.wants_gradient(input));
                if (gradients.input) {
                  playing.add_gradient(input, *gradients.input);
                }
                playing.add_gradient(weight, gradients.weight);
                playing.add_gradient(bias, gradients.bias);
              });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(GradientTape<R>& tape,
                                      std::vector<Tensor<float, R>> const& blocks) {
  auto packed = concat(blocks);
  tape.record(
      "concat", packed, [blocks](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        std::vector<std::int64_t> widths;
        std::vector<bool> wanted;
        for (auto const& block : blocks) {
          widths.push_back(block.shape()[1]);
          wanted.push_back(playing.wants_gradient(block));
        }
        auto const parts = split(gradient, std::span<std::int64_t const>(widths), wanted);
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          if (parts[i]) {
            playing.add_gradient(blocks[i], *parts[i]);
          }
        }
      });
  return packed;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> add(GradientTape<R>& tape,
                                   std::vector<Tensor<float, R>> const& terms) {
  auto total = add(terms);
  tape.record("add", total, [terms](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
    for (auto const& term : terms) {
      if (playing.wants_gradient(term)) {
        playing.add_gradient(term, gradient);
      }
    }
  });
  return total;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> scale(GradientTape<R>& tape,
                                     Tensor<float, R> const& input,
                                     float factor) {
  return detail::recorded(
      tape, "scale", input, scale(input, factor), [factor](auto const& gradient) {
        return scale(gradient, factor);
      });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto const output = sigmoid(input);
  return detail::recorded(tape, "sigmoid", input, output, [output](auto const& gradient) {
    return sigmoid_gradient(output, gradient);
  });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(GradientTape<R>& tape, Tensor<float, R> const& input) {
  return detail::recorded(
      tape, "sum", input, sum(input), [shape = input.shape()](auto const& gradient) {
        return broadcast(gradient, 1.0F, shape);
      });
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(GradientTape<R>& tape, Tensor<float, R> const& input) {
  return detail::recorded(
      tape, "mean", input, mean(input), [shape = input.shape()](auto const& gradient) {
        return broadcast(gradient, 1.0F / static_cast<float>(shape.count()), shape);
      });
}

/// The losses alone, of the logits' shape; the labels get no gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> bce_with_logits(GradientTape<R>& tape,
                                               Tensor<float, R> const& logits,
                                               Tensor<float, R> const& labels) {
  auto const result = bce_with_logits(logits, labels);
  return detail::recorded(tape,
                          "bce_with_logits",
                          logits,
                          result.losses,
                          [gradients = result.gradients](auto const& gradient) {
                            return multiply(gradients, gradient);
                          });
}

/// The mean over the batch of bce_with_logits: a scalar loss.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean_bce_with_logits(GradientTape<R>& tape,
                                                    Tensor<float, R> const& logits,
                                                    Tensor<float, R> const& labels) {
  auto const result = bce_with_logits(logits, labels);
  auto const factor = 1.0F / static_cast<float>(result.losses.count());
  return detail::recorded(tape,
                          "mean_bce_with_logits",
                          logits,
                          mean(result.losses),
                          [gradients = result.gradients, factor](auto const& gradient) {
                            return scale_by_scalar(gradients, gradient, factor);
                          });
}

}  // namespace msstream::ops
