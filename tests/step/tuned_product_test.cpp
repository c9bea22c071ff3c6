// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/step/captured_step.hpp>

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace msstream::testing {
namespace {

using ops::Activation;

/// The results of a dense layer and of its gradients, as float32.
struct Results {
  Floats output;
  Floats input_gradient;
  Floats weight_gradient;
  Floats bias_gradient;

  bool operator==(Results const&) const = default;
};

template <class R>
class TunedProductTest : public OpsTest<R> {
 protected:
  void SetUp() override {
    OpsTest<R>::SetUp();
    if (!this->IsSkipped()) {
      tuned_.emplace(DeviceOptions<R>{.tune_products = true});
    }
  }

  /// Computes a layer and its gradients on a device, eagerly or in a captured step that is the
  /// first to see the products' shapes. `operands` are input, weight, bias and output gradient.
  template <class T>
  Results compute(Device<R> const& device,
                  std::array<std::pair<Floats, Shape>, 4> const& operands,
                  Activation kind,
                  bool captured) {
    auto const put = [&](std::size_t i) {
      return ops::cast<T>(to_device<float, R>(device, operands[i].first, operands[i].second));
    };
    auto const x = put(0);
    auto const w = put(1);
    auto const b = put(2);
    auto const dy = put(3);
    std::optional<Tensor<T, R>> y;
    std::optional<ops::DenseGradients<R, T>> gradients;
    auto const layer = [&] {
      y.emplace(ops::dense(x, w, b, kind));
      gradients.emplace(ops::dense_gradient(x, w, *y, kind, dy, true));
    };
    std::optional<CapturedStep<R>> step;
    if (captured) {
      step.emplace(device, layer);
      step->replay();
    } else {
      layer();
    }
    return {to_host(ops::cast<float>(*y)),
            to_host(ops::cast<float>(*gradients->input)),
            to_host(gradients->weight),
            to_host(gradients->bias)};
  }

  template <class T>
  void expect_same_bits(std::array<std::int64_t, 3> const& sizes, Activation kind, bool captured) {
    auto const [batch, inputs, outputs] = sizes;
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}, captured: {}",
                             batch,
                             inputs,
                             outputs,
                             name_of(dtype_of<T>),
                             captured));
    auto const drawn = [&](Shape const& shape) {
      return std::pair(this->random.reals(shape.count()), shape);
    };
    std::array const operands{drawn({batch, inputs}),
                              drawn({inputs, outputs}),
                              drawn({outputs}),
                              drawn({batch, outputs})};
    EXPECT_EQ(compute<T>(*tuned_, operands, kind, captured),
              compute<T>(this->device(), operands, kind, captured));
  }

 private:
  std::optional<Device<R>> tuned_;
};
TYPED_TEST_SUITE(TunedProductTest, Runtimes, RuntimeNames);

TYPED_TEST(TunedProductTest, bits_are_those_of_the_recommended_algorithms) {
  for (std::array<std::int64_t, 3> const sizes :
       {std::array<std::int64_t, 3>{64, 32, 16}, {513, 96, 200}, {256, 257, 33}}) {
    this->template expect_same_bits<float>(sizes, Activation::relu, false);
    this->template expect_same_bits<bfloat16>(sizes, Activation::none, false);
    this->template expect_same_bits<float16>(sizes, Activation::relu, false);
  }
}

TYPED_TEST(TunedProductTest, a_capture_may_be_the_first_to_see_a_shape) {
  this->template expect_same_bits<bfloat16>({384, 80, 112}, Activation::relu, true);
  this->template expect_same_bits<float>({130, 40, 24}, Activation::none, true);
}

}  // namespace
}  // namespace msstream::testing
