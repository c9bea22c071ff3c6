// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/ops/precision.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace msstream {

/// The activations that a dense layer does not apply itself: one more launch each.
enum class SmoothActivation : std::uint8_t { gelu, silu, tanh };
/// The activations that have parameters: a slope, or Dice, for each column.
enum class TrainedActivation : std::uint8_t { prelu, dice };
/// An activation of a layer of a DenseStack.
using LayerActivation = std::variant<ops::Activation, SmoothActivation, TrainedActivation>;

/// Describes the rows of an input of a DenseStack, if they are a part of a batch or padded.
template <Runtime R = DefaultRuntime>
struct StackRows {
  /// Rows that count in the statistics of batch norm and Dice: see ops::BatchNormOptions::mask.
  std::optional<Tensor<float, R>> mask = {};
  /// The number of the first row among those of the whole batch of the step, for dropout: see
  /// ops::DropoutOptions::first_sample. Parts of a batch, and ranks, give where their part begins.
  std::int64_t first_sample = 0;
  /// The ranks whose rows together have the statistics of batch norm and Dice: see
  /// ops::batch_norm(). Null: those of this rank's rows.
  std::optional<comm::Communicator<R>> ranks = {};
  /// The name of this application, for a stack with dropout that is applied several times in a
  /// step, such as to positive and to negative items: its dropouts are `<name>/<layer>/<use>`.
  std::string_view use = {};
};

struct DenseStackOptions {
  LayerActivation activation = ops::Activation::relu;  ///< of every layer but the last
  LayerActivation last = ops::Activation::none;        ///< of the last layer
  Initializer weight = init::xavier_uniform();         ///< of the weights of all layers
  Initializer bias = init::zeros();                    ///< of the biases of all layers
  /// Whether every layer but the last has a batch norm in front of its activation.
  bool batch_norm = false;
  /// The probability of dropping an element behind the activation of every layer but the last.
  float dropout = 0.0F;
  /// For dropout: the generator, whose state is shared. Call its advance() once a step.
  std::optional<RandomGenerator<detail::AnyRuntime>> random = {};
  /// The precision of the layers for an input of float32, which is converted to it, as the output
  /// is to float32. An input of half precision decides for itself. Batch norm and trained
  /// activations are computed in float32 in any case.
  Precision precision = Precision::fp32;
  /// Whether the products of the layers, and of their gradients, are of 8-bit floats: see
  /// ops::dense_fp8(). `precision` then is that of what is between the layers. A layer with fewer
  /// than 16 inputs or outputs, such as one of logits, has the products of `precision`.
  bool fp8_products = false;
  /// Whether the stack may use the weights of an earlier stack of its name in the same store.
  /// Copies of a stack share its weights too.
  bool shared = false;
};

namespace detail {

/// Throws std::invalid_argument for a dropout outside [0, 1) or without a generator, and for a
/// stack that would share weights although its options do not say so.
void require_stack(Parameters<AnyRuntime> const& parameters,
                   std::string_view name,
                   DenseStackOptions const& options);
/// Throws std::invalid_argument for an input of a stack that is not [batch, inputs].
void require_stack_input(std::string_view name, Shape const& input, std::int64_t inputs);

}  // namespace detail

/// Dense layers one after the other: a multi-layer perceptron. Copies share the parameters.
template <Runtime R = DefaultRuntime>
class DenseStack {
 public:
  /// Makes, or finds, the parameters `<name>/<layer>/weight` [inputs, outputs] and
  /// `<name>/<layer>/bias` [outputs] of a layer for each entry of `widths`, the number of its
  /// outputs. The first layer has `inputs` inputs. A batch norm has `<name>/<layer>/norm/weight`
  /// and `bias`, a PReLU `<name>/<layer>/prelu/weight`, first 0.25, and Dice
  /// `<name>/<layer>/dice/weight`; the running statistics of batch norm and Dice are the buffers
  /// `mean` and `variance` beside them. A dropout has the name `<name>/<layer>`. Throws what
  /// Parameters::dense() throws, also for a name that has other shapes or initializers, and
  /// std::invalid_argument for a dropout outside [0, 1) or without a generator, and for a name that
  /// another stack of the store has, unless DenseStackOptions::shared.
  DenseStack(Parameters<R>& parameters,
             std::string_view name,
             std::int64_t inputs,
             std::vector<std::int64_t> const& widths,
             DenseStackOptions const& options = {},
             std::source_location issued_at = std::source_location::current())
      : name_(name),
        dropout_(options.dropout),
        random_(options.random),
        precision_(options.precision),
        fp8_products_(options.fp8_products) {
    detail::require_stack(parameters, name, options);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      bool const is_last = i + 1 == widths.size();
      auto const layer = layer_name(i);
      Shape const columns{widths[i]};
      auto const statistics_of = [&](std::string const& of) {
        return ops::RunningStatistics<R>{
            parameters.buffer(of + "/mean", columns, {}, issued_at),
            parameters.buffer(of + "/variance", columns, init::ones(), issued_at)};
      };
      Layer made{
          parameters.dense(layer + "/weight", {inputs, widths[i]}, options.weight, issued_at),
          parameters.dense(layer + "/bias", columns, options.bias, issued_at),
          is_last ? options.last : options.activation};
      if (options.batch_norm && !is_last) {
        auto const norm = layer + "/norm";
        made.norm.emplace(Norm{parameters.dense(norm + "/weight", columns, init::ones(), issued_at),
                               parameters.dense(norm + "/bias", columns, init::zeros(), issued_at),
                               statistics_of(norm)});
      }
      if (auto const* const trained = std::get_if<TrainedActivation>(&made.activation)) {
        bool const is_dice = *trained == TrainedActivation::dice;
        auto const of = layer + (is_dice ? "/dice" : "/prelu");
        made.slope.emplace(parameters.dense(
            of + "/weight", columns, init::constant(is_dice ? 0.0F : 0.25F), issued_at));
        if (is_dice) {
          made.dice.emplace(statistics_of(of));
        }
      }
      layers_.push_back(std::move(made));
      inputs = widths[i];
    }
    parameters.note_stack(name);
  }

  /// Returns the output of the last layer, [batch, outputs], for an input [batch, inputs], in the
  /// input's type. The result of a stack without layers is the input. `tape` is a GradientTape, or
  /// no_tape; with no_tape nothing is dropped, and batch norm and Dice use the running statistics.
  /// Throws std::invalid_argument, with the name of the stack, for an input of another shape:
  ///
  ///     auto const logits = stack(tape, features, {.mask = mask});
  template <class Tape, RealElement T>
  [[nodiscard]] Tensor<T, R> operator()(
      Tape& tape,
      Tensor<T, R> const& input,
      std::source_location issued_at = std::source_location::current()) const {
    return (*this)(tape, input, StackRows<R>(), issued_at);
  }
  template <class Tape, RealElement T>
  [[nodiscard]] Tensor<T, R> operator()(
      Tape& tape,
      Tensor<T, R> const& input,
      StackRows<R> const& rows,
      std::source_location issued_at = std::source_location::current()) const {
    if (layers_.empty()) {
      return input;
    }
    detail::require_stack_input(name_, input.shape(), layers_.front().weight.shape()[0]);
    if constexpr (HalfElement<T>) {
      return applied(tape, input, rows, issued_at);
    } else {
      return with_precision(precision_, [&](auto type) {
        using Inside = typename decltype(type)::type;
        auto const inside = ops::cast<Inside>(tape, input, issued_at);
        return ops::cast<float>(tape, applied(tape, inside, rows, issued_at), issued_at);
      });
    }
  }

 private:
  struct Norm {
    Tensor<float, R> weight;
    Tensor<float, R> bias;
    ops::RunningStatistics<R> running;
  };
  struct Layer {
    Tensor<float, R> weight;  ///< [inputs, outputs]
    Tensor<float, R> bias;    ///< [outputs]
    LayerActivation activation;
    std::optional<Norm> norm = {};
    std::optional<Tensor<float, R>> slope = {};          ///< of a TrainedActivation
    std::optional<ops::RunningStatistics<R>> dice = {};  ///< of TrainedActivation::dice
  };

  template <class Tape, RealElement T>
  [[nodiscard]] Tensor<T, R> applied(Tape& tape,
                                     Tensor<T, R> input,
                                     StackRows<R> const& rows,
                                     std::source_location issued_at) const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto const& layer = layers_[i];
      auto const* const fixed = std::get_if<ops::Activation>(&layer.activation);
      auto const fused = fixed != nullptr && !layer.norm ? *fixed : ops::Activation::none;
      input = fp8_products_
                  ? ops::dense_fp8(tape, input, layer.weight, layer.bias, fused, issued_at)
                  : ops::dense(tape, input, layer.weight, layer.bias, fused, issued_at);
      if (auto const* const smooth = std::get_if<SmoothActivation>(&layer.activation);
          smooth != nullptr && !layer.norm) {
        input = activated(*smooth, tape, input, issued_at);
      }
      if (layer.norm || layer.slope) {
        auto const wide = ops::cast<float>(tape, input, issued_at);
        input = ops::cast<T>(tape, finished(tape, wide, i, rows, issued_at), issued_at);
      }
      if (random_ && dropout_ > 0.0F && i + 1 < layers_.size()) {
        ops::DropoutOptions const dropping{.rate = dropout_, .first_sample = rows.first_sample};
        auto const name =
            rows.use.empty() ? layer_name(i) : layer_name(i) + "/" + std::string(rows.use);
        input = {detail::OfKnownType(),
                 ops::detail::dropout(tape, input.any(), dropping, *random_, name, issued_at)};
      }
    }
    return input;
  }
  /// Applies the batch norm and the activation of a layer that has a batch norm, or an activation
  /// with parameters: these are computed in float32.
  template <class Tape>
  [[nodiscard]] Tensor<float, R> finished(Tape& tape,
                                          Tensor<float, R> input,
                                          std::size_t i,
                                          StackRows<R> const& rows,
                                          std::source_location issued_at) const {
    auto const& layer = layers_[i];
    ops::BatchNormOptions<R> const counting{.mask = rows.mask};
    auto const ranks = ops::detail::ranks_of(rows.ranks);
    if (layer.norm) {
      auto const& norm = *layer.norm;
      input = ops::detail::typed<R>(ops::detail::batch_norm(
          tape, input, norm.weight, norm.bias, norm.running, counting, ranks, issued_at));
      auto const* const fixed = std::get_if<ops::Activation>(&layer.activation);
      if (fixed != nullptr && *fixed == ops::Activation::relu) {
        input = ops::relu(tape, input, issued_at);
      } else if (fixed != nullptr && *fixed == ops::Activation::gelu_tanh) {
        input = ops::gelu_tanh(tape, input, issued_at);
      }
      if (auto const* const smooth = std::get_if<SmoothActivation>(&layer.activation)) {
        input = activated(*smooth, tape, input, issued_at);
      }
    }
    if (layer.slope) {
      input = layer.dice ? ops::detail::typed<R>(ops::detail::dice(
                               tape, input, *layer.slope, *layer.dice, counting, ranks, issued_at))
                         : ops::prelu(tape, input, *layer.slope, issued_at);
    }
    return input;
  }
  template <class Tape, RealElement T>
  [[nodiscard]] static Tensor<T, R> activated(SmoothActivation activation,
                                              Tape& tape,
                                              Tensor<T, R> const& input,
                                              std::source_location issued_at) {
    switch (activation) {
      case SmoothActivation::gelu:
        return ops::gelu(tape, input, issued_at);
      case SmoothActivation::silu:
        return ops::silu(tape, input, issued_at);
      case SmoothActivation::tanh:
        return ops::tanh(tape, input, issued_at);
    }
    return input;
  }
  [[nodiscard]] std::string layer_name(std::size_t layer) const {
    return name_ + "/" + std::to_string(layer);
  }

  std::string name_;
  float dropout_;
  std::optional<RandomGenerator<detail::AnyRuntime>> random_;
  Precision precision_;
  bool fp8_products_;
  std::vector<Layer> layers_;
};

}  // namespace msstream
