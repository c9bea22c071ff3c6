// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/concat.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/differentiable/arithmetic.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/differentiable/layer_norm.hpp>
#include <msstream/step/differentiable/matmul.hpp>
#include <msstream/step/differentiable/matrix.hpp>
#include <msstream/step/differentiable/mixture.hpp>
#include <msstream/step/differentiable/reduce.hpp>
#include <msstream/step/differentiable/rows.hpp>
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
[[nodiscard]] Tensor<float, R> segment_reduce(GradientTape<R>& tape,
                                              Tensor<float, R> const& values,
                                              Tensor<std::int64_t, R> const& offsets,
                                              Pooling pooling) {
  auto reduced = segment_reduce(values, offsets, pooling);
  if (tape.wants_gradient(values)) {
    tape.record(
        "segment_reduce",
        reduced,
        [values, offsets, pooling](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
          playing.add_gradient(
              values, segment_reduce_gradient(gradient, offsets, values.shape()[0], pooling));
        });
  }
  return reduced;
}

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
  auto output = scale(input, factor);
  tape.record(
      "scale", output, [input, factor](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
        playing.add_gradient(input, scale(gradient, factor));
      });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto output = sigmoid(input);
  tape.record("sigmoid",
              output,
              [input, output](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
                playing.add_gradient(input, sigmoid_gradient(output, gradient));
              });
  return output;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto total = sum(input);
  tape.record("sum", total, [input](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
    playing.add_gradient(input, broadcast(gradient, 1.0F, input.shape()));
  });
  return total;
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(GradientTape<R>& tape, Tensor<float, R> const& input) {
  auto average = mean(input);
  tape.record("mean", average, [input](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
    playing.add_gradient(
        input, broadcast(gradient, 1.0F / static_cast<float>(input.count()), input.shape()));
  });
  return average;
}

/// The mean over the batch of bce_with_logits: a scalar loss.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean_bce_with_logits(GradientTape<R>& tape,
                                                    Tensor<float, R> const& logits,
                                                    Tensor<float, R> const& labels) {
  auto const result = bce_with_logits(logits, labels);
  auto loss = mean(result.losses);
  tape.record(
      "mean_bce_with_logits",
      loss,
      [logits, gradients = result.gradients](GradientTape<R>& playing,
                                             Tensor<float, R> const& gradient) {
        playing.add_gradient(
            logits,
            scale_by_scalar(gradients, gradient, 1.0F / static_cast<float>(gradients.count())));
      });
  return loss;
}

}  // namespace msstream::ops
