// SPDX-License-Identifier: Apache-2.0
#include "dense/dense.hpp"

#include "mixed/summed_gradients.hpp"
#include "ops/common/workspace.hpp"
#include "ops/dense/bias_gradient.hpp"
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// The sizes of one dense layer, or of several equal dense layers that one launch computes.
struct DenseSizes {
  std::int64_t layers;
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  bool stacked;       ///< whether tensors have a leading dimension for the layers
  bool shared_input;  ///< whether all stacked layers read one input

  /// Returns the sizes, or nothing if the shapes of input and weight do not fit each other.
  [[nodiscard]] static std::optional<DenseSizes> of(Shape const& input, Shape const& weight) {
    bool const stacked = weight.rank() == 3;
    if ((!stacked && weight.rank() != 2) ||
        (input.rank() != 2 && !(stacked && input.rank() == 3))) {
      return std::nullopt;
    }
    auto const layers = stacked ? weight[0] : 1;
    bool const shared = stacked && input.rank() == 2;
    auto const batch = input[input.rank() - 2];
    auto const inputs = input[input.rank() - 1];
    if (inputs != weight[weight.rank() - 2] || layers > kernels::kMostDenseLayers ||
        (input.rank() == 3 && input[0] != layers)) {
      return std::nullopt;
    }
    return DenseSizes{layers, batch, inputs, weight[weight.rank() - 1], stacked, shared};
  }
  [[nodiscard]] Shape output() const {
    return stacked ? Shape{layers, batch, outputs} : Shape{batch, outputs};
  }
  [[nodiscard]] Shape bias() const { return stacked ? Shape{layers, outputs} : Shape{outputs}; }
};

/// Returns the gradient of the input of one or more dense layers. If all layers share one input,
/// the result is the sum of the layers' gradients; otherwise it has one gradient per layer.
[[nodiscard]] AnyTensor dense_input_gradient(DenseSizes const& sizes,
                                             AnyTensor const& weight,
                                             AnyTensor const& gradient,
                                             std::source_location issued_at) {
  AnyTensor const each(weight.device(),
                       gradient.dtype(),
                       sizes.stacked ? Shape{sizes.layers, sizes.batch, sizes.inputs}
                                     : Shape{sizes.batch, sizes.inputs});
  kernels::DenseInputGradientArgs const args{.output_gradient = gradient.data(),
                                             .weight = weight.data(),
                                             .input_gradient = each.data(),
                                             .batch = sizes.batch,
                                             .inputs = sizes.inputs,
                                             .outputs = sizes.outputs,
                                             .layers = sizes.layers,
                                             .dtype = gradient.dtype()};
  issue(
      "dense_input_gradient",
      reads(gradient, weight),
      writes(each),
      [args](auto stream) { kernels::dense_input_gradient(stream, args); },
      {},
      issued_at);
  if (!sizes.shared_input) {
    return each;
  }
  auto const floats = cast(each, DType::float32, issued_at);
  return cast(sum(Floats(floats), 0, {}, issued_at).any(), gradient.dtype(), issued_at);
}

/// Computes the gradient of the weight, and that of the bias unless it is null.
void dense_weight_gradient(DenseSizes const& sizes,
                           AnyTensor const& input,
                           AnyTensor const& gradient,
                           Floats const& weight_gradient,
                           Floats const* bias_gradient,
                           std::source_location issued_at) {
  kernels::DenseWeightGradientArgs args{
      .input = input.data(),
      .output_gradient = gradient.data(),
      .weight_gradient = weight_gradient.data(),
      .bias_gradient = bias_gradient != nullptr ? bias_gradient->data() : nullptr,
      .batch = sizes.batch,
      .inputs = sizes.inputs,
      .outputs = sizes.outputs,
      .layers = sizes.layers,
      .shared_input = sizes.shared_input,
      .dtype = gradient.dtype()};
  auto const& device = input.device();
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::dense_weight_gradient_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  auto written = writes(weight_gradient);
  if (bias_gradient != nullptr) {
    written.add(*bias_gradient);
  }
  issue(
      "dense_weight_gradient",
      reads(input, gradient),
      workspace.with(written),
      [args](auto stream) { kernels::dense_weight_gradient(stream, args); },
      {},
      issued_at);
}

/// Returns the name of the operation that computes the gradient before an activation.
[[nodiscard]] char const* gradient_name(Activation activation) {
  return activation == Activation::gelu_tanh ? "gelu_tanh_gradient" : "relu_gradient";
}

/// Returns the gradient before the activation.
[[nodiscard]] AnyTensor activation_gradient(AnyTensor const& saved,
                                            Activation activation,
                                            AnyTensor const& output_gradient,
                                            std::source_location issued_at) {
  return activation == Activation::none
             ? output_gradient
             : unary_gradient(gradient_name(activation),
                              activation == Activation::relu ? kernels::UnaryFunction::relu
                                                             : kernels::UnaryFunction::gelu_tanh,
                              saved,
                              output_gradient,
                              issued_at);
}

}  // namespace

AnyTensor sum_gradient(AnyTensor const& saved,
                       Activation activation,
                       AnyTensor const& output_gradient,
                       Floats const& bias_gradient,
                       std::source_location issued_at) {
  bool const activates = activation != Activation::none;
  auto const gradient =
      activates ? AnyTensor(saved.device(), saved.dtype(), saved.shape()) : output_gradient;
  kernels::ActivationSumsArgs const args{.activation = activation,
                                         .saved = activates ? saved.data() : nullptr,
                                         .output_gradient = output_gradient.data(),
                                         .input_gradient = activates ? gradient.data() : nullptr,
                                         .sums = bias_gradient.data(),
                                         .rows = saved.shape()[0],
                                         .columns = saved.shape()[1],
                                         .dtype = saved.dtype()};
  auto read = reads(output_gradient);
  auto written = writes(bias_gradient);
  if (activates) {
    read.add(saved);
    written.add(gradient);
  }
  issue(
      activates ? gradient_name(activation) : "bias_gradient",
      read,
      written,
      [args](auto stream) { kernels::activation_gradient_sums(stream, args); },
      {},
      issued_at);
  return gradient;
}

AnyDenseOutput dense_for_gradient(AnyTensor const& input,
                                  AnyTensor const& weight,
                                  AnyTensor const& bias,
                                  Activation activation,
                                  std::source_location issued_at) {
  auto const sizes = DenseSizes::of(input.shape(), weight.shape());
  require(sizes && bias.count() == sizes->layers * sizes->outputs,
          "dense: input {}, weight {}, bias {}; expected [batch, inputs], [inputs, outputs], "
          "[outputs], or in front of each the number of layers",
          input.shape(),
          weight.shape(),
          bias.shape());
  auto const dtype = input.dtype();
  require(weight.dtype() == dtype && bias.dtype() == dtype,
          "dense: input of {}, weight of {}, bias of {}; expected one type",
          name_of(dtype),
          name_of(weight.dtype()),
          name_of(bias.dtype()));
  AnyTensor const output(input.device(), dtype, sizes->output());
  bool const is_gelu = activation == Activation::gelu_tanh;
  auto const saved = is_gelu ? AnyTensor(input.device(), dtype, sizes->output()) : output;
  kernels::DenseArgs const args{.input = input.data(),
                                .weight = weight.data(),
                                .bias = bias.data(),
                                .output = output.data(),
                                .batch = sizes->batch,
                                .inputs = sizes->inputs,
                                .outputs = sizes->outputs,
                                .activation = activation,
                                .layers = sizes->layers,
                                .shared_input = sizes->shared_input,
                                .dtype = dtype,
                                .pre_activation = is_gelu ? saved.data() : nullptr};
  auto written = writes(output);
  if (is_gelu) {
    written.add(saved);
  }
  issue(
      "dense",
      reads(input, weight, bias),
      written,
      [args](auto stream) { kernels::dense(stream, args); },
      {},
      issued_at);
  return {output, saved};
}

AnyDenseGradients dense_gradient(AnyTensor const& input,
                                 AnyTensor const& weight,
                                 AnyTensor const& saved,
                                 Activation activation,
                                 AnyTensor const& output_gradient,
                                 bool with_input_gradient,
                                 std::source_location issued_at) {
  auto const& device = input.device();
  auto const sizes = DenseSizes::of(input.shape(), weight.shape());
  require(sizes && saved.shape() == sizes->output() && output_gradient.shape() == sizes->output(),
          "dense_gradient: input {}, weight {}, output {}, output gradient {}",
          input.shape(),
          weight.shape(),
          saved.shape(),
          output_gradient.shape());
  auto const dtype = input.dtype();
  require(
      weight.dtype() == dtype && saved.dtype() == dtype && output_gradient.dtype() == dtype,
      "dense_gradient: input of {}, weight of {}, output of {}, output gradient of {}; expected "
      "one type",
      name_of(dtype),
      name_of(weight.dtype()),
      name_of(saved.dtype()),
      name_of(output_gradient.dtype()));

  AnyDenseGradients gradients{{}, {device, weight.shape()}, {device, sizes->bias()}};
  // In half precision, and of gelu_tanh, the gradient of the bias comes from the pass that computes
  // the gradient before the activation: an epilogue of the product for it rules out computing a
  // long sum in parts, and takes longer.
  bool const sums_first = (dtype != DType::float32 || activation == Activation::gelu_tanh) &&
                          !sizes->stacked && sizes->outputs > 1;
  auto const gradient =
      sums_first ? sum_gradient(saved, activation, output_gradient, gradients.bias, issued_at)
                 : activation_gradient(saved, activation, output_gradient, issued_at);
  if (with_input_gradient) {
    gradients.input = dense_input_gradient(*sizes, weight, gradient, issued_at);
  }
  dense_weight_gradient(
      *sizes, input, gradient, gradients.weight, sums_first ? nullptr : &gradients.bias, issued_at);
  return gradients;
}

}  // namespace msstream::ops::detail
