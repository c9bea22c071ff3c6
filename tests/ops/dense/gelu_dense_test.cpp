// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/dense.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <type_traits>

namespace msstream::testing {
namespace {

using ops::Activation;

/// The sizes of dense layers with gelu_tanh; 0 layers means one that is not stacked.
struct GeluLayers {
  std::int64_t layers;
  std::int64_t batch;
  std::int64_t inputs;
  std::int64_t outputs;
  bool shared_input = false;

  [[nodiscard]] Shape stacked(Shape const& shape) const {
    return layers == 0 ? shape : Shape{layers, shape[0], shape[1]};
  }
};

/// A sum in double, and the sum of its terms' magnitudes, to which errors are relative.
struct GeluSums {
  Doubles values;
  Doubles magnitudes;

  explicit GeluSums(std::int64_t count)
      : values(static_cast<std::size_t>(count), 0.0),
        magnitudes(static_cast<std::size_t>(count), 0.0) {}
  void add(std::int64_t to, double term) {
    values[static_cast<std::size_t>(to)] += term;
    magnitudes[static_cast<std::size_t>(to)] += std::abs(term);
  }
};

template <class R>
class GeluDenseOpTest : public HalfTest<R> {
 protected:
  template <class T>
  void expect_gradients(GeluLayers const& sizes) {
    SCOPED_TRACE(fmt::format("{} layers of {} x {} x {}, {}",
                             sizes.layers,
                             sizes.batch,
                             sizes.inputs,
                             sizes.outputs,
                             name_of(dtype_of<T>)));
    auto const [layers, batch, inputs, outputs, shared] = sizes;
    Shape const rows{batch, inputs};
    auto const x = this->template operand<T>(shared ? rows : sizes.stacked(rows), -1.0F, 1.0F);
    auto const w = this->template operand<T>(sizes.stacked({inputs, outputs}), -1.0F, 1.0F);
    auto const b = this->template operand<T>(layers == 0 ? Shape{outputs} : Shape{layers, outputs});
    auto const dy = this->template operand<T>(sizes.stacked({batch, outputs}));
    auto const both = ops::dense_for_gradient(x.tensor, w.tensor, b.tensor, Activation::gelu_tanh);
    auto const gradients =
        ops::dense_gradient(x.tensor, w.tensor, both.saved, Activation::gelu_tanh, dy.tensor, true);
    EXPECT_EQ(to_doubles(to_host(ops::dense(x.tensor, w.tensor, b.tensor, Activation::gelu_tanh))),
              to_doubles(to_host(both.output)));

    // The gradients are those at the sums that were kept, which have an error of their own.
    auto const saved = to_doubles(to_host(both.saved));
    auto const layer_count = std::max<std::int64_t>(layers, 1);
    GeluSums sums(layer_count * batch * outputs);
    GeluSums dx(shared ? batch * inputs : layer_count * batch * inputs);
    GeluSums dw(layer_count * inputs * outputs);
    GeluSums db(layer_count * outputs);
    for (std::int64_t i = 0; i < layer_count * batch * outputs; ++i) {
      auto const column = i % outputs;
      auto const layer = i / outputs / batch;
      auto const row = i / outputs - (shared ? layer * batch : 0);
      double const dz = dy.at(i) * slope(saved[static_cast<std::size_t>(i)]);
      sums.add(i, b.at(layer * outputs + column));
      db.add(layer * outputs + column, dz);
      for (std::int64_t k = 0; k < inputs; ++k) {
        auto const of_weight = (layer * inputs + k) * outputs + column;
        sums.add(i, x.at(row * inputs + k) * w.at(of_weight));
        dx.add(row * inputs + k, dz * w.at(of_weight));
        dw.add(of_weight, dz * x.at(row * inputs + k));
      }
    }
    // On CUDA, a product whose rows are not aligned to 16 bytes is rounded before the bias is
    // added.
    bool const rounds_products =
        R::name == std::string_view("cuda") && (inputs % 8 != 0 || outputs % 8 != 0);
    expect_sums(to_host(both.saved), sums, rounds_products ? 1 : 0);
    // The gradient of a shared input is the sum of the layers' gradients, each rounded to T.
    expect_sums(to_host(*gradients.input), dx, shared ? 2 : 1);
    // Gradients of weights are float32, from a gradient that was rounded to T.
    expect_floats<T>(to_host(gradients.weight), dw);
    expect_floats<T>(to_host(gradients.bias), db);
    EXPECT_FALSE(
        ops::dense_gradient(x.tensor, w.tensor, both.saved, Activation::gelu_tanh, dy.tensor, false)
            .input.has_value());
  }

 private:
  static double slope(double z) {
    double const factor = std::sqrt(2 / std::numbers::pi);
    double const t = std::tanh(factor * (z + 0.044715 * z * z * z));
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * factor * (1 + 3 * 0.044715 * z * z);
  }
  /// Expects sums in float32, rounded to T once, of terms that were rounded to T `roundings` times.
  template <class T>
  static void expect_sums(std::vector<T> const& actual, GeluSums const& expected, int roundings) {
    Doubles bounds;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      double const of_terms = kFloatError + 1.01 * roundings * kUnitRoundoff<T>;
      bounds.push_back(
          rounding_bound<T>(expected.values[i], of_terms * expected.magnitudes[i] + 1e-7));
    }
    expect_bounded(actual, expected.values, bounds);
  }
  template <class T>
  static void expect_floats(Floats const& actual, GeluSums const& expected) {
    Doubles bounds;
    for (double const magnitude : expected.magnitudes) {
      bounds.push_back((kFloatError + 1.01 * kUnitRoundoff<T>)*magnitude + 1e-7);
    }
    expect_bounded(actual, expected.values, bounds);
  }
};
TYPED_TEST_SUITE(GeluDenseOpTest, Runtimes, RuntimeNames);

TYPED_TEST(GeluDenseOpTest, gradients_agree_with_double) {
  for (auto const& sizes : {GeluLayers{0, 1, 1, 1},
                            {0, 0, 4, 8},
                            {0, 3, 0, 5},
                            {0, 7, 5, 3},
                            {0, 64, 33, 17},
                            {0, 64, 32, 16},
                            {0, 130, 64, 1},
                            {0, 2048, 8, 16},
                            {0, 1031, 7, 5},
                            {3, 7, 5, 1},
                            {3, 7, 5, 4},
                            {3, 32, 9, 16},
                            {3, 7, 5, 8, true},
                            {2, 1031, 5, 3, true}}) {
    this->template expect_gradients<float>(sizes);
    this->template expect_gradients<float16>(sizes);
    this->template expect_gradients<bfloat16>(sizes);
  }
}

TYPED_TEST(GeluDenseOpTest, other_activations_keep_their_output) {
  auto const x = this->random_tensor({4, 3});
  auto const w = this->random_tensor({3, 2});
  auto const b = this->random_tensor({2});
  for (auto const activation : {Activation::none, Activation::relu}) {
    auto const both = ops::dense_for_gradient(x, w, b, activation);
    EXPECT_EQ(both.saved.identity(), both.output.identity());
  }
}

}  // namespace
}  // namespace msstream::testing
