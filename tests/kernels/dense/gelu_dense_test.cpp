// SPDX-License-Identifier: Apache-2.0
#include "dense/dense.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

/// The sizes of dense layers with gelu_tanh.
struct GeluShape {
  std::int64_t layers;
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  bool shared_input = false;
};

/// Layers without rows, inputs or outputs, with one output, with odd numbers of outputs, and with
/// numbers of outputs for which cuBLASLt has an epilogue.
constexpr GeluShape kGeluShapes[] = {{1, 0, 5, 8},
                                     {1, 4, 0, 3},
                                     {1, 4, 0, 8},
                                     {1, 3, 4, 0},
                                     {0, 3, 4, 8},
                                     {1, 1, 1, 1},
                                     {1, 33, 13, 1},
                                     {1, 6, 1, 5},
                                     {1, 31, 37, 29},
                                     {1, 31, 37, 24},
                                     {1, 128, 64, 32},
                                     {1, 1031, 20, 16},
                                     {3, 33, 13, 1},
                                     {3, 31, 37, 12},
                                     {3, 32, 40, 16},
                                     {3, 31, 37, 16, true},
                                     {2, 9, 5, 7, true}};

template <class Stream>
class GeluDenseTest : public KernelTest<Stream> {
 protected:
  template <class T>
  struct Layers {
    std::vector<T> input;
    std::vector<T> weight;
    std::vector<T> bias;
  };
  template <class T>
  std::vector<T> values_of(std::int64_t count) {
    std::vector<T> values;
    for (float const value : this->random.reals(count)) {
      values.push_back(from_float<T>(value));
    }
    return values;
  }
  template <class T>
  Layers<T> random_layers(GeluShape const& shape) {
    return {values_of<T>((shape.shared_input ? 1 : shape.layers) * shape.batch * shape.inputs),
            values_of<T>(shape.layers * shape.inputs * shape.outputs),
            values_of<T>(shape.layers * shape.outputs)};
  }
  static DenseArgs args_of(GeluShape const& shape, DType dtype) {
    return {.input = nullptr,
            .weight = nullptr,
            .bias = nullptr,
            .output = nullptr,
            .batch = shape.batch,
            .inputs = shape.inputs,
            .outputs = shape.outputs,
            .activation = Activation::gelu_tanh,
            .layers = shape.layers,
            .shared_input = shape.shared_input,
            .dtype = dtype};
  }

  /// Compares the output and the pre-activation in type T with sums in double. `shift` is the
  /// number of elements in front of each operand, which is then not aligned.
  template <class T>
  void expect_gelu(GeluShape const& shape, bool with_bias, std::int64_t shift) {
    SCOPED_TRACE(fmt::format("{} layers of {} x {} x {}, {}{}, shift {}",
                             shape.layers,
                             shape.batch,
                             shape.inputs,
                             shape.outputs,
                             name_of(dtype_of<T>),
                             with_bias ? "" : " without bias",
                             shift));
    constexpr double kRoundoff = std::is_same_v<T, bfloat16>  ? 0x1p-8
                                 : std::is_same_v<T, float16> ? 0x1p-11
                                                              : 0x1p-24;
    // Half the distance of the smallest numbers of float16.
    constexpr double kLeast = std::is_same_v<T, float16> ? 0x1p-25 : 0.0;
    // On CUDA, a product whose rows are not aligned to 16 bytes is rounded before the bias is
    // added.
    bool const rounds_products = std::is_same_v<Stream, CudaStream> && sizeof(T) == 2 &&
                                 with_bias &&
                                 (shift != 0 || shape.inputs % 8 != 0 || shape.outputs % 8 != 0);
    auto const layers = random_layers<T>(shape);
    auto const behind = [&](std::vector<T> values) {
      values.insert(values.begin(), static_cast<std::size_t>(shift), from_float<T>(7.0F));
      return this->upload(values);
    };
    auto const input = behind(layers.input);
    auto const weight = behind(layers.weight);
    auto const bias = behind(layers.bias);
    auto const count = shape.layers * shape.batch * shape.outputs;
    auto const output = this->template poisoned<T>(count);
    auto const sums = this->template poisoned<T>(count);
    auto args = args_of(shape, dtype_of<T>);
    args.input = input.data() + shift;
    args.weight = weight.data() + shift;
    args.bias = with_bias ? bias.data() + shift : nullptr;
    args.output = output.data();
    args.pre_activation = sums.data();
    dense(this->stream(), args);

    auto const outputs = this->read(output);
    auto const kept = this->read(sums);
    auto const at = [](std::vector<T> const& values, std::int64_t i) {
      return static_cast<double>(to_float(values[static_cast<std::size_t>(i)]));
    };
    for (std::int64_t i = 0; i < count; ++i) {
      auto const layer = i / (shape.batch * shape.outputs);
      auto const column = i % shape.outputs;
      auto const row = i / shape.outputs - (shape.shared_input ? layer * shape.batch : 0);
      double const of_bias = with_bias ? at(layers.bias, layer * shape.outputs + column) : 0.0;
      double z = of_bias;
      double magnitude = std::abs(z);
      for (std::int64_t k = 0; k < shape.inputs; ++k) {
        double const term = at(layers.input, row * shape.inputs + k) *
                            at(layers.weight, (layer * shape.inputs + k) * shape.outputs + column);
        z += term;
        magnitude += std::abs(term);
      }
      double const slope = std::sqrt(2 / std::numbers::pi);
      double const y = 0.5 * z * (1 + std::tanh(slope * (z + 0.044715 * z * z * z)));
      double const error = 1e-6 * magnitude + kLeast +
                           (rounds_products ? kRoundoff * std::abs(z - of_bias) + kLeast : 0.0);
      ASSERT_TRUE(std::abs(at(kept, i) - z) <= kRoundoff * std::abs(z) + error)
          << "pre-activation " << i << " is " << at(kept, i) << ", not " << z;
      // gelu_tanh, whose derivative is at most 1.13, may be that of the rounded sum.
      double const bound = kRoundoff * (1.25 * std::abs(z) + std::abs(y)) + 1.25 * error + kLeast;
      ASSERT_TRUE(std::abs(at(outputs, i) - y) <= bound)
          << "output " << i << " is " << at(outputs, i) << ", not " << y << ", of " << z;
    }
  }
};
TYPED_TEST_SUITE(GeluDenseTest, StreamKinds, StreamKindName);

TYPED_TEST(GeluDenseTest, outputs_and_kept_sums_are_those_of_double) {
  for (auto const& shape : kGeluShapes) {
    for (bool const with_bias : {true, false}) {
      for (std::int64_t const shift : {0, 1}) {
        this->template expect_gelu<float>(shape, with_bias, shift);
        this->template expect_gelu<float16>(shape, with_bias, shift);
        this->template expect_gelu<bfloat16>(shape, with_bias, shift);
      }
    }
  }
}

TYPED_TEST(GeluDenseTest, large_sums_give_themselves_or_zero_and_nan_stays) {
  for (std::int64_t const outputs : {3, 8}) {
    auto const width = static_cast<std::size_t>(outputs);
    std::vector<bfloat16> const inputs{
        from_float<bfloat16>(1e4F), from_float<bfloat16>(-1e4F), from_float<bfloat16>(NAN)};
    auto const input = this->upload(inputs);
    auto const weight = this->upload(std::vector(width, from_float<bfloat16>(1.0F)));
    auto const output = this->template poisoned<bfloat16>(3 * outputs);
    auto const sums = this->template poisoned<bfloat16>(3 * outputs);
    auto args = this->args_of({1, 3, 1, outputs}, DType::bfloat16);
    args.input = input.data();
    args.weight = weight.data();
    args.output = output.data();
    args.pre_activation = sums.data();
    dense(this->stream(), args);
    auto const found = this->read(output);
    for (std::size_t column = 0; column < width; ++column) {
      EXPECT_EQ(found[column].bits, inputs[0].bits);
      EXPECT_EQ(to_float(found[width + column]), 0.0F);
      EXPECT_TRUE(std::isnan(to_float(found[2 * width + column])));
    }
  }
}

TYPED_TEST(GeluDenseTest, a_captured_layer_has_the_bits_of_an_eager_one) {
  for (GeluShape const& shape : {GeluShape{1, 96, 80, 48}, GeluShape{1, 96, 80, 47}}) {
    auto const layers = this->template random_layers<float16>(shape);
    auto const input = this->upload(layers.input);
    auto const weight = this->upload(layers.weight);
    auto const bias = this->upload(layers.bias);
    auto const output = this->template poisoned<float16>(shape.batch * shape.outputs);
    auto const sums = this->template poisoned<float16>(shape.batch * shape.outputs);
    auto args = this->args_of(shape, DType::float16);
    args.input = input.data();
    args.weight = weight.data();
    args.bias = bias.data();
    args.output = output.data();
    args.pre_activation = sums.data();
    auto const bits = [&] {
      std::vector<std::uint16_t> found;
      for (auto const* const buffer : {&output, &sums}) {
        for (auto const value : this->read(*buffer)) {
          found.push_back(value.bits);
        }
      }
      return found;
    };
    dense(this->stream(), args);
    auto const eager = bits();
    this->poison(output);
    this->poison(sums);
    this->replay([&](auto stream) { dense(stream, args); });
    EXPECT_EQ(bits(), eager);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
