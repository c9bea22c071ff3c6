// SPDX-License-Identifier: Apache-2.0
#include "dense/dense.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>
#include <type_traits>

namespace msstream::ops::kernels::testing {
namespace {

struct Shape3 {
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
};

/// Shapes of dense layers: empty, single, odd, tall (with more than one chunk of column sums, and
/// with sums in parts of equal or unequal length), and those of the example trainer.
constexpr Shape3 kShapes[] = {
    {0, 5, 3},     {0, 5, 1},     {4, 0, 3},      {4, 0, 1},      {3, 4, 0},      {1, 1, 1},
    {1, 7, 1},     {1, 9, 6},     {6, 1, 5},      {33, 13, 1},    {512, 128, 1},  {3001, 45, 1},
    {3001, 0, 70}, {3001, 6, 5},  {1031, 20, 12}, {1031, 3, 130}, {4096, 64, 64}, {4099, 9, 6},
    {31, 37, 29},  {128, 64, 32}, {512, 535, 256}};

/// A sum in float64, and the sum of its terms' magnitudes, to which rounding errors are relative.
struct Sum {
  double value = 0;
  double magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};
using Sums = std::vector<Sum>;

void expect_close(std::vector<float> const& actual, Sums const& expected, char const* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const error = std::abs(actual[i] - expected[i].value);
    if (!(error <= 1e-6 * expected[i].magnitude)) {  // also fails for NaN
      FAIL() << what << '[' << i << "] is " << actual[i] << ", should be " << expected[i].value;
    }
  }
}

std::vector<std::uint32_t> bits_of(std::vector<float> const& values) {
  std::vector<std::uint32_t> bits;
  std::transform(values.begin(), values.end(), std::back_inserter(bits), [](float value) {
    return std::bit_cast<std::uint32_t>(value);
  });
  return bits;
}

/// A row-major matrix [rows, columns], accessed by its indices. If `transposed` is true, the
/// indices are swapped.
struct View {
  std::vector<float> const& values;
  std::int64_t columns;
  bool transposed = false;

  double operator()(std::int64_t row, std::int64_t column) const {
    auto const place = transposed ? column * columns + row : row * columns + column;
    return values[static_cast<std::size_t>(place)];
  }
};

Sums product(View left, View right, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  Sums out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < inner; ++k) {
      double const factor = left(row, k);
      for (std::int64_t column = 0; column < columns; ++column) {
        out[static_cast<std::size_t>(row * columns + column)].add(factor * right(k, column));
      }
    }
  }
  return out;
}

std::string describe(Shape3 const& shape) {
  return fmt::format("batch {}, inputs {}, outputs {}", shape.batch, shape.inputs, shape.outputs);
}

template <class Stream>
class DenseTest : public KernelTest<Stream> {
 protected:
  std::vector<float> reals(std::int64_t count) { return this->random.reals(count); }

  /// Uploads values after one extra float, so that their address is a multiple of 4 bytes but not
  /// of 16.
  Buffer<float> upload_shifted(std::vector<float> values) {
    values.insert(values.begin(), 0.0F);
    return this->upload(values);
  }

  /// Computes the weight gradient with a poisoned workspace of exactly the size that the kernel
  /// requests.
  void weight_gradient(DenseWeightGradientArgs args) {
    auto const workspace =
        this->workspace(dense_weight_gradient_workspace_bytes(this->stream(), args));
    args.workspace = workspace.data();
    dense_weight_gradient(this->stream(), args);
    this->synchronise();
  }

  struct Layer {
    std::vector<float> input;
    std::vector<float> weight;
    std::vector<float> bias;
    std::vector<float> output_gradient;
  };
  Layer random_layer(Shape3 const& shape) {
    return {reals(shape.batch * shape.inputs),
            reals(shape.inputs * shape.outputs),
            reals(shape.outputs),
            reals(shape.batch * shape.outputs)};
  }

  Sums expected_output(Layer const& layer,
                       Shape3 const& shape,
                       bool with_bias,
                       Activation activation) {
    auto const [batch, inputs, outputs] = shape;
    auto sums = product({layer.input, inputs}, {layer.weight, outputs}, batch, inputs, outputs);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (with_bias) {
        sums[i].add(layer.bias[i % layer.bias.size()]);
      }
      if (activation == Activation::relu) {
        sums[i].value = std::max(sums[i].value, 0.0);
      }
    }
    return sums;
  }
};
TYPED_TEST_SUITE(DenseTest, StreamKinds, StreamKindName);

TYPED_TEST(DenseTest, forward_is_the_product_plus_bias_activated) {
  for (auto const& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    auto const layer = this->random_layer(shape);
    auto const input = this->upload(layer.input);
    auto const weight = this->upload(layer.weight);
    auto const bias = this->upload(layer.bias);
    for (bool const with_bias : {true, false}) {
      for (auto const activation : {Activation::none, Activation::relu}) {
        auto const output = this->floats(shape.batch * shape.outputs);
        dense(this->stream(),
              {input.data(),
               weight.data(),
               with_bias ? bias.data() : nullptr,
               output.data(),
               shape.batch,
               shape.inputs,
               shape.outputs,
               activation});
        expect_close(this->read(output),
                     this->expected_output(layer, shape, with_bias, activation),
                     "output");
      }
    }
  }
}

TYPED_TEST(DenseTest, gradients_are_those_of_the_product) {
  for (auto const& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    auto const [batch, inputs, outputs] = shape;
    auto const layer = this->random_layer(shape);
    auto const input = this->upload(layer.input);
    auto const weight = this->upload(layer.weight);
    auto const output_gradient = this->upload(layer.output_gradient);
    View const gradient{layer.output_gradient, outputs};

    auto const input_gradient = this->floats(batch * inputs);
    dense_input_gradient(
        this->stream(),
        {output_gradient.data(), weight.data(), input_gradient.data(), batch, inputs, outputs});
    expect_close(this->read(input_gradient),
                 product(gradient, {layer.weight, outputs, true}, batch, outputs, inputs),
                 "input_gradient");

    std::vector<float> const ones(static_cast<std::size_t>(batch), 1.0F);
    for (bool const with_bias : {true, false}) {
      auto const weight_gradient = this->floats(inputs * outputs);
      auto const bias_gradient = this->floats(outputs);
      this->weight_gradient({input.data(),
                             output_gradient.data(),
                             weight_gradient.data(),
                             with_bias ? bias_gradient.data() : nullptr,
                             batch,
                             inputs,
                             outputs});
      expect_close(this->read(weight_gradient),
                   product({layer.input, inputs, true}, gradient, inputs, batch, outputs),
                   "weight_gradient");
      if (with_bias) {
        expect_close(this->read(bias_gradient),
                     product({ones, batch}, gradient, 1, batch, outputs),
                     "bias_gradient");
      }
    }
  }
}

TYPED_TEST(DenseTest, layers_are_each_their_own_product) {
  using Layer = typename TestFixture::Layer;
  for (auto const& shape : {Shape3{33, 13, 1},
                            Shape3{1100, 9, 1},
                            Shape3{31, 37, 29},
                            Shape3{1100, 6, 5},
                            Shape3{1031, 6, 5},
                            Shape3{2048, 24, 40},
                            Shape3{128, 64, 32},
                            Shape3{0, 5, 3},
                            Shape3{4, 0, 3}}) {
    for (std::int64_t const layers : {0, 1, 3, 8}) {
      for (bool const shared : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}, layers {}{}", describe(shape), layers, shared ? ", one input" : ""));
        auto const [batch, inputs, outputs] = shape;
        std::vector<Layer> all;
        Layer stacked;
        auto const append = [](std::vector<float>& to, std::vector<float> const& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        for (std::int64_t i = 0; i < layers; ++i) {
          auto layer = this->random_layer(shape);
          if (shared && i > 0) {
            layer.input = all.front().input;
          } else {
            append(stacked.input, layer.input);
          }
          append(stacked.weight, layer.weight);
          append(stacked.bias, layer.bias);
          append(stacked.output_gradient, layer.output_gradient);
          all.push_back(std::move(layer));
        }
        auto const input = this->upload(stacked.input);
        auto const weight = this->upload(stacked.weight);
        auto const bias = this->upload(stacked.bias);
        auto const gradient = this->upload(stacked.output_gradient);
        auto const output = this->floats(layers * batch * outputs);
        auto const input_gradient = this->floats(layers * batch * inputs);
        auto const weight_gradient = this->floats(layers * inputs * outputs);
        auto const bias_gradient = this->floats(layers * outputs);
        dense(this->stream(),
              {.input = input.data(),
               .weight = weight.data(),
               .bias = bias.data(),
               .output = output.data(),
               .batch = batch,
               .inputs = inputs,
               .outputs = outputs,
               .activation = Activation::relu,
               .layers = layers,
               .shared_input = shared});
        dense_input_gradient(this->stream(),
                             {.output_gradient = gradient.data(),
                              .weight = weight.data(),
                              .input_gradient = input_gradient.data(),
                              .batch = batch,
                              .inputs = inputs,
                              .outputs = outputs,
                              .layers = layers});
        this->weight_gradient({.input = input.data(),
                               .output_gradient = gradient.data(),
                               .weight_gradient = weight_gradient.data(),
                               .bias_gradient = bias_gradient.data(),
                               .batch = batch,
                               .inputs = inputs,
                               .outputs = outputs,
                               .layers = layers,
                               .shared_input = shared});
        Sums outputs_expected;
        Sums input_gradients;
        Sums weight_gradients;
        Sums bias_gradients;
        auto const append_sums = [](Sums& to, Sums const& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        std::vector<float> const ones(static_cast<std::size_t>(batch), 1.0F);
        for (auto const& layer : all) {
          View const dy{layer.output_gradient, outputs};
          append_sums(outputs_expected,
                      this->expected_output(layer, shape, true, Activation::relu));
          append_sums(input_gradients,
                      product(dy, {layer.weight, outputs, true}, batch, outputs, inputs));
          append_sums(weight_gradients,
                      product({layer.input, inputs, true}, dy, inputs, batch, outputs));
          append_sums(bias_gradients, product({ones, batch}, dy, 1, batch, outputs));
        }
        expect_close(this->read(output), outputs_expected, "output");
        expect_close(this->read(input_gradient), input_gradients, "input_gradient");
        expect_close(this->read(weight_gradient), weight_gradients, "weight_gradient");
        expect_close(this->read(bias_gradient), bias_gradients, "bias_gradient");
      }
    }
  }
}

TYPED_TEST(DenseTest, matrices_may_start_at_any_float) {
  for (Shape3 const shape :
       {Shape3{40, 36, 24}, Shape3{40, 36, 1}, Shape3{1100, 36, 24}, Shape3{1031, 36, 24}}) {
    SCOPED_TRACE(describe(shape));
    auto const [batch, inputs, outputs] = shape;
    auto const layer = this->random_layer(shape);
    auto const input = this->upload_shifted(layer.input);
    auto const weight = this->upload_shifted(layer.weight);
    auto const bias = this->upload_shifted(layer.bias);
    auto const gradient = this->upload_shifted(layer.output_gradient);
    auto const output = this->floats(1 + batch * outputs);
    auto const weight_gradient = this->floats(1 + inputs * outputs);
    auto const bias_gradient = this->floats(1 + outputs);
    dense(this->stream(),
          {input.data() + 1,
           weight.data() + 1,
           bias.data() + 1,
           output.data() + 1,
           batch,
           inputs,
           outputs,
           Activation::relu});
    this->weight_gradient({input.data() + 1,
                           gradient.data() + 1,
                           weight_gradient.data() + 1,
                           bias_gradient.data() + 1,
                           batch,
                           inputs,
                           outputs});
    auto const behind_first = [&](Buffer<float> const& buffer) {
      auto values = this->read(buffer);
      EXPECT_TRUE(std::isnan(values.front()));
      values.erase(values.begin());
      return values;
    };
    expect_close(behind_first(output),
                 this->expected_output(layer, shape, true, Activation::relu),
                 "output");
    View const output_gradient{layer.output_gradient, outputs};
    expect_close(behind_first(weight_gradient),
                 product({layer.input, inputs, true}, output_gradient, inputs, batch, outputs),
                 "weight_gradient");
    std::vector<float> const ones(static_cast<std::size_t>(batch), 1.0F);
    expect_close(behind_first(bias_gradient),
                 product({ones, batch}, output_gradient, 1, batch, outputs),
                 "bias_gradient");
  }
}

TYPED_TEST(DenseTest, every_run_and_every_thread_gives_the_same_bits) {
  for (Shape3 const shape :
       {Shape3{512, 535, 256}, Shape3{3001, 45, 1}, Shape3{5000, 20, 12}, Shape3{4099, 20, 12}}) {
    SCOPED_TRACE(describe(shape));
    auto const layer = this->random_layer(shape);
    auto const input = this->upload(layer.input);
    auto const weight = this->upload(layer.weight);
    auto const bias = this->upload(layer.bias);
    auto const gradient = this->upload(layer.output_gradient);
    auto const run = [&] {
      auto const [batch, inputs, outputs] = shape;
      auto const output = this->floats(batch * outputs);
      auto const weight_gradient = this->floats(inputs * outputs);
      auto const bias_gradient = this->floats(outputs);
      dense(this->stream(),
            {input.data(),
             weight.data(),
             bias.data(),
             output.data(),
             batch,
             inputs,
             outputs,
             Activation::relu});
      this->weight_gradient({input.data(),
                             gradient.data(),
                             weight_gradient.data(),
                             bias_gradient.data(),
                             batch,
                             inputs,
                             outputs});
      return std::vector{bits_of(this->read(output)),
                         bits_of(this->read(weight_gradient)),
                         bits_of(this->read(bias_gradient))};
    };
    auto const first = run();
    EXPECT_EQ(run(), first);
    std::vector<std::vector<std::uint32_t>> elsewhere;
    std::thread([&] { elsewhere = run(); }).join();
    EXPECT_EQ(elsewhere, first);
  }
}

TYPED_TEST(DenseTest, a_captured_call_gives_the_bits_of_an_eager_one) {
  Shape3 const shape{96, 80, 48};
  auto const layer = this->random_layer(shape);
  auto const input = this->upload(layer.input);
  auto const weight = this->upload(layer.weight);
  auto const bias = this->upload(layer.bias);
  auto const output = this->floats(shape.batch * shape.outputs);
  auto const issue = [&](auto stream) {
    dense(stream,
          {input.data(),
           weight.data(),
           bias.data(),
           output.data(),
           shape.batch,
           shape.inputs,
           shape.outputs,
           Activation::relu});
  };
  issue(this->stream());
  auto const eager = this->read(output);
  this->poison(output);
  this->replay(issue);
  EXPECT_EQ(bits_of(this->read(output)), bits_of(eager));
}

TYPED_TEST(DenseTest, captured_gradients_of_a_long_batch_have_the_bits_of_eager_ones) {
  for (Shape3 const shape : {Shape3{2048, 20, 12}, Shape3{1031, 20, 12}}) {
    SCOPED_TRACE(describe(shape));
    auto const layer = this->random_layer(shape);
    auto const input = this->upload(layer.input);
    auto const gradient = this->upload(layer.output_gradient);
    auto const weight_gradient = this->floats(shape.inputs * shape.outputs);
    auto const bias_gradient = this->floats(shape.outputs);
    DenseWeightGradientArgs args{input.data(),
                                 gradient.data(),
                                 weight_gradient.data(),
                                 bias_gradient.data(),
                                 shape.batch,
                                 shape.inputs,
                                 shape.outputs};
    auto const workspace =
        this->workspace(dense_weight_gradient_workspace_bytes(this->stream(), args));
    args.workspace = workspace.data();
    dense_weight_gradient(this->stream(), args);
    auto const eager_weight = this->read(weight_gradient);
    auto const eager_bias = this->read(bias_gradient);
    this->poison(weight_gradient);
    this->poison(bias_gradient);
    this->poison(workspace);
    this->replay([&](auto stream) { dense_weight_gradient(stream, args); });
    EXPECT_EQ(bits_of(this->read(weight_gradient)), bits_of(eager_weight));
    EXPECT_EQ(bits_of(this->read(bias_gradient)), bits_of(eager_bias));
  }
}

TYPED_TEST(DenseTest, a_batch_in_one_part_needs_no_workspace) {
  auto const bytes = [&](Shape3 const& shape, std::int64_t layers, bool shared) {
    return dense_weight_gradient_workspace_bytes(this->stream(),
                                                 {.input = nullptr,
                                                  .output_gradient = nullptr,
                                                  .weight_gradient = nullptr,
                                                  .bias_gradient = nullptr,
                                                  .batch = shape.batch,
                                                  .inputs = shape.inputs,
                                                  .outputs = shape.outputs,
                                                  .layers = layers,
                                                  .shared_input = shared});
  };
  EXPECT_EQ(bytes({0, 64, 64}, 1, false), 0U);
  EXPECT_EQ(bytes({1023, 64, 64}, 1, false), 0U);
  EXPECT_EQ(bytes({4096, 64, 1}, 1, false), 0U);
  EXPECT_EQ(bytes({4096, 0, 64}, 1, false), 0U);
  EXPECT_EQ(bytes({4096, 1024, 2048}, 1, false), 0U);
  EXPECT_EQ(bytes({4096, 64, 64}, 8, true), 0U);
  bool const in_parts = !std::is_same_v<TypeParam, HostStream>;
  EXPECT_EQ(bytes({4096, 64, 64}, 1, true) > 0, in_parts);
  EXPECT_EQ(bytes({4096, 64, 64}, 8, false) > 0, in_parts);
}

TYPED_TEST(DenseTest, a_nan_in_the_input_shows_behind_the_activation_of_one_output) {
  auto const input = this->upload(std::vector{1.0F, std::nanf("")});
  auto const weight = this->upload(std::vector{1.0F, 1.0F});
  auto const output = this->upload(std::vector{0.0F});
  dense(this->stream(),
        {input.data(), weight.data(), nullptr, output.data(), 1, 2, 1, Activation::relu});
  EXPECT_TRUE(std::isnan(this->read(output).front()));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
