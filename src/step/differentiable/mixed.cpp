// SPDX-License-Identifier: Apache-2.0
#include "mixed/half_columns.hpp"
#include "ops/common/half_copies.hpp"
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

void require_half(char const* operation, AnyTensor const& tensor) {
  require(tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16,
          "{}: a tensor of {}; expected float16 or bfloat16",
          operation,
          name_of(tensor.dtype()));
}

/// Returns the blocks' memory as columns.
[[nodiscard]] std::vector<kernels::HalfColumns> columns_of(std::vector<AnyTensor> const& blocks) {
  std::vector<kernels::HalfColumns> columns;
  for (auto const& block : blocks) {
    columns.push_back({block.data(), block.shape()[1]});
  }
  return columns;
}

/// Adds to the blocks that want a gradient their columns of the packed gradient.
void split_gradient(AnyTape& playing,
                    std::vector<AnyTensor> const& blocks,
                    AnyTensor const& gradient,
                    std::source_location issued_at) {
  std::vector<std::pair<AnyTensor, AnyTensor>> parts;  // of the blocks that want a gradient
  std::vector<kernels::HalfColumns> columns;
  std::optional<msstream::detail::Uses<AnyRuntime, AccessMode::write>> written;
  for (auto const& block : blocks) {
    void* data = nullptr;
    if (playing.wants_gradient(block)) {
      auto const& part =
          parts.emplace_back(block, AnyTensor(block.device(), block.dtype(), block.shape())).second;
      data = part.data();
      written ? written->add(part) : void(written = writes(part));
    }
    columns.push_back({data, block.shape()[1]});
  }
  if (!written) {
    return;
  }
  issue(
      "split",
      reads(gradient),
      *written,
      [columns = std::move(columns), rows = gradient.shape()[0], packed = gradient.data()](
          auto stream) { kernels::split_half_columns(stream, packed, columns, rows); },
      {},
      issued_at);
  for (auto& [block, part] : parts) {
    playing.add_gradient(block, std::move(part), issued_at);
  }
}

void add_gradients(AnyTape& playing,
                   CrossWeights<AnyRuntime> const& weights,
                   CrossWeightGradients const& gradients,
                   std::source_location issued_at) {
  playing.add_gradient(weights.down, gradients.down, issued_at);
  playing.add_gradient(weights.up, gradients.up, issued_at);
  playing.add_gradient(weights.bias, gradients.bias, issued_at);
}

/// Returns a matrix of half precision with another number of columns: without its last ones, or
/// with zeros behind them. A matrix that has so many is returned itself.
[[nodiscard]] AnyTensor with_columns(AnyTensor const& input,
                                     std::int64_t columns,
                                     std::source_location issued_at) {
  auto const& shape = input.shape();
  if (shape[1] == columns) {
    return input;
  }
  AnyTensor const output(input.device(), input.dtype(), Shape{shape[0], columns});
  kernels::ResizedColumns const args{input.data(), output.data(), shape[0], shape[1], columns};
  issue(
      "resize_columns",
      reads(input),
      writes(output),
      [args](auto stream) { kernels::resize_half_columns(stream, args); },
      {},
      issued_at);
  return output;
}

/// Returns the number of inputs with which a dense layer of half precision is computed: a multiple
/// of 8, so that the rows are aligned to the 16 bytes that products on tensor cores read. For 479
/// inputs the gradient of the weight takes 29 µs instead of 350 (8,192 x 479 x 1,024, one H200).
[[nodiscard]] std::int64_t padded_inputs(AnyTensor const& input, Floats const& weight) {
  constexpr std::int64_t kMultiple = 8;
  bool const pads = input.dtype() != DType::float32 && input.shape().rank() == 2 &&
                    weight.shape().rank() == 2 && weight.shape()[1] > 1 &&
                    input.shape()[1] == weight.shape()[0];
  auto const inputs = weight.shape()[0];
  return pads ? (inputs + kMultiple - 1) / kMultiple * kMultiple : inputs;
}

/// The weight and the bias of a dense layer in the type of its input.
struct CastWeights {
  AnyTensor weight;  ///< with rows of zeros behind its own, if inputs are padded
  AnyTensor bias;
};
[[nodiscard]] CastWeights cast_weights(Floats const& weight,
                                       Floats const& bias,
                                       std::int64_t inputs,
                                       DType dtype,
                                       std::source_location issued_at) {
  if (dtype == DType::float32) {
    return {weight.any(), bias.any()};
  }
  auto const own = halves_of(std::vector{weight.any(), bias.any()}, dtype, issued_at);
  if (inputs == weight.shape()[0]) {
    return {own[0], own[1]};
  }
  // As one row, the weight is padded behind its last element.
  auto const outputs = weight.shape()[1];
  auto const padded =
      with_columns(own[0].reshaped({1, weight.count()}), inputs * outputs, issued_at);
  return {padded.reshaped({inputs, outputs}), own[1]};
}

[[nodiscard]] kernels::UnaryFunction kernel_of(HalfFunction function) {
  switch (function) {
    case HalfFunction::relu:
      return kernels::UnaryFunction::relu;
    case HalfFunction::gelu:
      return kernels::UnaryFunction::gelu;
    case HalfFunction::gelu_tanh:
      return kernels::UnaryFunction::gelu_tanh;
    case HalfFunction::silu:
      return kernels::UnaryFunction::silu;
    case HalfFunction::tanh:
      return kernels::UnaryFunction::tanh;
    case HalfFunction::sigmoid:
      return kernels::UnaryFunction::sigmoid;
    case HalfFunction::clamp:
      break;
  }
  return kernels::UnaryFunction::clamp;
}

[[nodiscard]] char const* name_of(HalfFunction function) {
  constexpr char const* kNames[] = {
      "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "clamp"};
  return kNames[static_cast<std::size_t>(function)];
}

}  // namespace

AnyTensor cast(AnyTape* tape, AnyTensor const& input, DType to, std::source_location issued_at) {
  auto output = cast(input, to, issued_at);
  if (tape != nullptr && input.dtype() != to && !tape->wants_gradient(input)) {
    tape->without_gradient(output);  // so that no operation computes a gradient for it
  } else if (tape != nullptr && input.dtype() != to) {
    tape->note_input(input);
    tape->record_any(
        "cast",
        output,
        [input, issued_at](AnyTape& playing, AnyTensor const& gradient) {
          if (playing.wants_gradient(input)) {
            playing.add_gradient(input, cast(gradient, input.dtype(), issued_at), issued_at);
          }
        },
        issued_at);
  }
  return output;
}

AnyTensor dense(AnyTape* tape,
                AnyTensor const& input,
                Floats const& weight,
                Floats const& bias,
                Activation activation,
                std::source_location issued_at) {
  auto const inputs = padded_inputs(input, weight);
  auto const own = cast_weights(weight, bias, inputs, input.dtype(), issued_at);
  auto const padded = inputs == weight.shape()[0] ? input : with_columns(input, inputs, issued_at);
  auto [output, saved] = dense_for_gradient(padded, own.weight, own.bias, activation, issued_at);
  if (tape != nullptr) {
    tape->note_input(input);
    tape->note_inputs(weight, bias);
    tape->record_any(
        "dense",
        output,
        [input,
         padded,
         weight,
         bias,
         own_weight = own.weight,
         saved = saved,
         activation,
         issued_at](AnyTape& playing, AnyTensor const& gradient) {
          auto const gradients = dense_gradient(padded,
                                                own_weight,
                                                saved,
                                                activation,
                                                gradient,
                                                playing.wants_gradient(input),
                                                issued_at);
          if (gradients.input) {
            auto const own_columns =
                own_weight.shape() == weight.shape()
                    ? *gradients.input
                    : with_columns(*gradients.input, input.shape()[1], issued_at);
            playing.add_gradient(input, own_columns, issued_at);
          }
          auto const own_rows = own_weight.shape() == weight.shape()
                                    ? gradients.weight
                                    : gradients.weight.rows(0, weight.shape()[0]);
          playing.add_gradient(weight, own_rows, issued_at);
          playing.add_gradient(bias, gradients.bias, issued_at);
        },
        issued_at);
  }
  return output;
}

AnyTensor cross_layer(AnyTape* tape,
                      AnyTensor const& first,
                      AnyTensor const& input,
                      CrossWeights<AnyRuntime> const& weights,
                      std::source_location issued_at) {
  auto const layer = cross_layer(first, input, weights, issued_at);
  if (tape != nullptr) {
    tape->note_input(first);
    tape->note_input(input);
    tape->note_inputs(weights.down, weights.up, weights.bias);
    tape->record_any(
        "cross_layer",
        layer.output,
        [first, input, weights, layer, issued_at](AnyTape& playing, AnyTensor const& gradient) {
          auto gradients = cross_layer_gradient(first, input, layer, gradient, issued_at);
          playing.add_gradient(first, std::move(gradients.first), issued_at);
          playing.add_gradient(input, std::move(gradients.input), issued_at);
          add_gradients(playing, weights, gradients.weights, issued_at);
        },
        issued_at);
  }
  return layer.output;
}

AnyTensor cross_network(AnyTape* tape,
                        AnyTensor const& input,
                        std::vector<CrossWeights<AnyRuntime>> const& weights,
                        std::source_location issued_at) {
  if (tape == nullptr) {
    return cross_network_output(input, weights, issued_at);
  }
  auto layers = cross_network(input, weights, issued_at);
  auto output = layers.back().output;
  tape->note_input(input);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    tape->note_inputs(weights[i].down, weights[i].up, weights[i].bias);
    if (i + 1 < weights.size()) {
      tape->note_part("cross_network", layers[i].output, issued_at);
    }
  }
  tape->record_any(
      "cross_network",
      output,
      [input, weights, layers = std::move(layers), issued_at](AnyTape& playing,
                                                              AnyTensor const& gradient) {
        auto gradients = cross_network_gradient(input, layers, gradient, issued_at);
        // The layers come before the input, so that a NonFiniteLocator names the first one whose
        // gradients are not finite.
        for (auto i = weights.size(); i-- > 0;) {
          add_gradients(playing, weights[i], gradients.layers[i], issued_at);
        }
        playing.add_gradient(input, std::move(gradients.input), issued_at);
      },
      issued_at);
  return output;
}

AnyTensor dot_interaction(AnyTape* tape,
                          AnyTensor const& dense,
                          AnyTensor const& embeddings,
                          std::source_location issued_at) {
  auto output = dot_interaction(dense, embeddings, issued_at);
  if (tape != nullptr) {
    tape->note_input(dense);
    tape->note_input(embeddings);
    tape->record_any(
        "dot_interaction",
        output,
        [dense, embeddings, issued_at](AnyTape& playing, AnyTensor const& gradient) {
          WantedOperands const wanted{.left = playing.wants_gradient(dense),
                                      .right = playing.wants_gradient(embeddings)};
          auto gradients = dot_interaction_gradient(dense, embeddings, gradient, wanted, issued_at);
          if (gradients.left) {
            playing.add_gradient(dense, *std::move(gradients.left), issued_at);
          }
          if (gradients.right) {
            playing.add_gradient(embeddings, *std::move(gradients.right), issued_at);
          }
        },
        issued_at);
  }
  return output;
}

AnyTensor concat_halves(AnyTape* tape,
                        std::vector<AnyTensor> const& blocks,
                        std::source_location issued_at) {
  require(!blocks.empty(), "concat: no blocks");
  auto const& first = blocks.front();
  auto read = reads(first);
  std::int64_t width = 0;
  for (auto const& block : blocks) {
    require_half("concat", block);
    require(block.dtype() == first.dtype() && block.shape().rank() == 2 &&
                block.shape()[0] == first.shape()[0],
            "concat: block of shape {} beside one of shape {}",
            block.shape(),
            first.shape());
    width += block.shape()[1];
    if (&block != &first) {
      read.add(block);
    }
  }
  auto const rows = first.shape()[0];
  AnyTensor packed(first.device(), first.dtype(), Shape{rows, width});
  issue(
      "concat",
      read,
      writes(packed),
      [columns = columns_of(blocks), rows, target = packed.data()](auto stream) {
        kernels::concat_half_columns(stream, columns, rows, target);
      },
      {},
      issued_at);
  if (tape != nullptr) {
    for (auto const& block : blocks) {
      tape->note_input(block);
    }
    tape->record_any(
        "concat",
        packed,
        [blocks, issued_at](AnyTape& playing, AnyTensor const& gradient) {
          split_gradient(playing, blocks, gradient, issued_at);
        },
        issued_at);
  }
  return packed;
}

AnyTensor half_function(AnyTape* tape,
                        HalfFunction function,
                        AnyTensor const& input,
                        std::source_location issued_at,
                        float low,
                        float high) {
  auto const* const name = name_of(function);
  require_half(name, input);
  require(low <= high, "{}: low {}, high {}; expected low <= high", name, low, high);
  auto const kernel = kernel_of(function);
  auto output = unary(name, kernel, input, issued_at, low, high);
  if (tape != nullptr) {
    tape->note_input(input);
    auto const& saved = kernels::gradient_reads_output(kernel) ? output : input;
    tape->record_any(
        name,
        output,
        [input, saved, name, kernel, low, high, issued_at](AnyTape& playing,
                                                           AnyTensor const& gradient) {
          if (playing.wants_gradient(input)) {
            playing.add_gradient(
                input,
                unary_gradient(name, kernel, saved, gradient, issued_at, low, high),
                issued_at);
          }
        },
        issued_at);
  }
  return output;
}

AnyTensor softmax_halves(AnyTape* tape,
                         AnyTensor const& input,
                         TensorOf<std::int64_t> const* lengths,
                         std::source_location issued_at) {
  require_half("softmax", input);
  auto output = softmax(input, lengths, input.dtype(), issued_at);
  if (tape != nullptr) {
    tape->note_input(input);
    tape->record_any(
        "softmax",
        output,
        [input, output, issued_at](AnyTape& playing, AnyTensor const& gradient) {
          if (playing.wants_gradient(input)) {
            playing.add_gradient(input, softmax_gradient(output, gradient, issued_at), issued_at);
          }
        },
        issued_at);
  }
  return output;
}

}  // namespace msstream::ops::detail
