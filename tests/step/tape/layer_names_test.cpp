// SPDX-License-Identifier: Apache-2.0
#include "step/layer_names.hpp"

#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/cross_network.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CommonPath, ends_before_a_separator_of_both_names) {
  EXPECT_EQ(detail::common_path("top/1/weight", "top/1/bias"), "top/1");
  EXPECT_EQ(detail::common_path("top.1.weight", "top.1.bias"), "top.1");
  EXPECT_EQ(detail::common_path("top/1", "top/1/bias"), "top/1");
  EXPECT_EQ(detail::common_path("top/1/bias", "top/1"), "top/1");
  EXPECT_EQ(detail::common_path("table/1", "table/10"), "table");
  EXPECT_EQ(detail::common_path("table", "table"), "table");
  EXPECT_EQ(detail::common_path("users", "items"), "users");
}

/// A model of float16, of which every parameter has a name: two tables, three cross layers and
/// three dense layers, with a loss scale of 256. All its values are near 1.
template <class R>
class LayerNamesTest : public OpsTest<R> {
 protected:
  using Locator = NonFiniteLocator<R>;
  using Phase = typename Locator::Phase;
  using Finding = typename Locator::Finding;

  struct Model {
    explicit Model(Device<R> const& device)
        : parameters(device),
          tables(
              device,
              {{.weights = parameters.table("rows/0", {2, 2}, init::constant(1.0F)), .hotness = 1},
               {.weights = parameters.table("rows/1", {2, 2}, init::constant(1.0F)),
                .hotness = 1}}),
          cross(parameters, "cross", 4, {.layers = 3, .rank = 2, .weight = init::constant(0.01F)}),
          top(parameters, "top", 4, {4, 4, 1}, {.weight = init::constant(0.25F)}),
          scale(device, LossScaleOptions::fixed(256.0F)),
          optimizer(device,
                    {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.0F},
                    {.loss_scale = scale}),
          ids(zeros<std::int64_t>(device, {4})) {
      optimizer.add(parameters);
    }
    void step(GradientTape<R>& tape) {
      auto const rows = ops::embedding_lookup<float16>(tape, tables, {ids, 2});
      auto const out = top(tape, ops::relu(tape, cross(tape, rows)));
      auto const loss = ops::sum(tape, ops::cast<float>(tape, out));
      tape.backward(scale.scaled(tape, loss));
      optimizer.step(tape);
      tape.clear();
    }

    Parameters<R> parameters;
    ops::EmbeddingTables<R> tables;
    CrossNetwork<R> cross;
    DenseStack<R> top;
    LossScale<R> scale;
    Optimizer<R> optimizer;
    Tensor<std::int64_t, R> ids;
  };

  void plant(Model const& model, std::string const& name, float value) const {
    auto const parameter = model.parameters.template find<float>(name);
    copy(parameter,
         this->put(Floats(static_cast<std::size_t>(parameter.count()), value), parameter.shape()));
  }
  /// Returns the finding of a step with a planted parameter, eager and, if the runtime captures,
  /// of a replay, which must be equal.
  [[nodiscard]] std::optional<Finding> found_with(std::string const& planted,
                                                  float value,
                                                  std::string* message = nullptr) const {
    Model model(this->device());
    GradientTape<R> tape(this->device());
    Locator locator(tape, model.parameters);
    model.step(tape);
    EXPECT_FALSE(locator.first()) << "before anything is planted";
    std::optional<CapturedStep<R>> captured;
    if constexpr (CapturingRuntime<R>) {
      captured.emplace(this->device(), [&] { model.step(tape); });
      captured->replay();
      EXPECT_FALSE(locator.first());
    }
    plant(model, planted, value);
    model.step(tape);
    auto const eager = locator.first();
    if (message != nullptr) {
      *message = message_of<std::runtime_error>([&] { locator.require_finite(); });
    }
    EXPECT_EQ(model.optimizer.status().skipped, 1) << planted;
    if (captured) {
      locator.forget();
      captured->replay();
      auto const replayed = locator.first();
      EXPECT_TRUE(eager && replayed);
      if (eager && replayed) {
        EXPECT_EQ(replayed->layer, eager->layer);
        EXPECT_EQ(replayed->is_behind_layer, eager->is_behind_layer);
        EXPECT_EQ(replayed->operation, eager->operation);
        EXPECT_EQ(replayed->phase, eager->phase);
      }
    }
    return eager;
  }
  void expect_found(std::string const& planted,
                    float value,
                    Phase phase,
                    std::string const& operation,
                    std::string const& layer) const {
    SCOPED_TRACE(planted + " = " + std::to_string(value));
    std::string message;
    auto const found = found_with(planted, value, &message);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->phase, phase);
    EXPECT_EQ(found->operation, operation);
    EXPECT_EQ(found->layer, layer);
    EXPECT_FALSE(found->is_behind_layer);
    EXPECT_THAT(message, HasSubstr("\"" + operation + "\" in \"" + layer + "\", called at "));
  }
};
TYPED_TEST_SUITE(LayerNamesTest, Runtimes, RuntimeNames);

TYPED_TEST(LayerNamesTest, of_a_result_that_overflows_float16_are_those_of_its_parameters) {
  using Phase = typename TestFixture::Phase;
  for (std::string const layer : {"top/0", "top/1", "top/2"}) {
    this->expect_found(layer + "/weight", 6e4F, Phase::forward, "dense", layer);
  }
  for (std::string const layer : {"cross/0", "cross/1", "cross/2"}) {
    this->expect_found(layer + "/bias", 6.6e4F, Phase::forward, "cross_network", layer);
  }
}

TYPED_TEST(LayerNamesTest, of_a_gradient_that_overflows_float16_are_those_of_its_operation) {
  using Phase = typename TestFixture::Phase;
  for (std::string const layer : {"top/0", "top/1", "top/2"}) {
    this->expect_found(layer + "/weight", 1e4F, Phase::backward, "dense", layer);
  }
  for (std::string const layer : {"cross/0", "cross/1", "cross/2"}) {
    // The gradient of the layer's product with `up` overflows, and with it that of `down`.
    this->expect_found(layer + "/up", 1e4F, Phase::backward, "cross_network", layer + "/down");
  }
}

TYPED_TEST(LayerNamesTest, of_an_input_is_the_parameter_that_was_not_finite) {
  using Phase = typename TestFixture::Phase;
  this->expect_found("top/1/bias", INFINITY, Phase::input, "dense", "top/1/bias");
  this->expect_found("cross/1/up", NAN, Phase::input, "cross_network", "cross/1/up");
  this->expect_found("rows/1", NAN, Phase::input, "embedding_tables_lookup", "rows/1");
}

TYPED_TEST(LayerNamesTest, of_operations_without_parameters_are_those_in_front) {
  GradientTape tape(this->device());
  Parameters<TypeParam> parameters(this->device());
  NonFiniteLocator locator(tape, parameters);
  // The store makes its parameters after the locator.
  auto const users = parameters.dense("users/weight", {2}, init::constant(1e30F));
  auto const items = parameters.dense("items/weight", {2}, init::constant(1e30F));
  auto const data = this->put(Floats{1, 1});
  auto const found = [&](auto const& function) {
    locator.forget();
    function();
    tape.clear();
    return locator.first();
  };
  auto const one = found([&] {
    auto const of_users = ops::scale(tape, users, 1.0F);
    auto const of_items = ops::scale(tape, items, 1.0F);
    (void)ops::multiply(tape, ops::relu(tape, of_items), of_users);
  });
  ASSERT_TRUE(one);
  EXPECT_EQ(one->layer, "items/weight");
  EXPECT_TRUE(one->is_behind_layer);
  EXPECT_THAT(message_of<std::runtime_error>([&] { locator.require_finite(); }),
              AllOf(HasSubstr("forward of"), HasSubstr(" behind \"items/weight\", called at ")));
  auto const of_data = found([&] {
    (void)ops::multiply(tape, ops::scale(tape, data, 1e30F), ops::scale(tape, data, 1e30F));
  });
  ASSERT_TRUE(of_data);
  EXPECT_EQ(of_data->layer, "") << "no parameter of this step, nor of the step before";
}

TYPED_TEST(LayerNamesTest, of_gradients_and_updates_of_parameters_are_the_parameters) {
  using Phase = typename TestFixture::Phase;
  Parameters<TypeParam> parameters(this->device());
  DenseStack top(parameters, "top", 2, {2, 1}, {.weight = init::zeros()});
  auto const features = this->put(Floats{3e38F, 1}, {1, 2});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add(parameters);
  GradientTape tape(this->device());
  NonFiniteLocator locator(tape, parameters);
  auto const step = [&](float factor) {
    tape.clear();
    locator.forget();
    tape.without_gradient(features);
    auto const loss = ops::sum(tape, top(tape, features));
    tape.backward(ops::scale(tape, loss, factor));
    optimizer.step(tape);
    return locator.first();
  };
  // Ones in the second layer pass the gradient to the first, whose weight gets features * factor.
  copy(parameters.template find<float>("top/1/weight"), this->put(Floats{1, 1}, {2, 1}));
  copy(parameters.template find<float>("top/0/bias"), this->put(Floats{1, 1}));
  auto const of_gradient = step(4.0F);
  ASSERT_TRUE(of_gradient);
  EXPECT_EQ(of_gradient->phase, Phase::backward);
  EXPECT_EQ(of_gradient->layer, "top/0/weight");
  EXPECT_FALSE(of_gradient->is_behind_layer);

  copy(parameters.template find<float>("top/0/weight"), this->put(Floats(4, 0), {2, 2}));
  copy(parameters.template find<float>("top/0/bias"), this->put(Floats{1, 1}));
  copy(parameters.template find<float>("top/1/weight"), this->put(Floats{1, 1}, {2, 1}));
  copy(parameters.template find<float>("top/1/bias"), this->put(Floats{-3.4e38F}));
  optimizer.set_learning_rate(3.4e37F);
  auto const of_update = step(1.0F);
  ASSERT_TRUE(of_update);
  EXPECT_EQ(of_update->phase, Phase::update);
  EXPECT_EQ(of_update->operation, of_update->layer);
  EXPECT_THAT(message_of<std::runtime_error>([&] { locator.require_finite(); }),
              HasSubstr("update of \"" + of_update->layer + "\", called at "));
}

TYPED_TEST(LayerNamesTest, are_empty_without_parameters) {
  typename TestFixture::Model model(this->device());
  GradientTape tape(this->device());
  NonFiniteLocator const locator(tape);
  this->plant(model, "top/1/weight", 6e4F);
  model.step(tape);
  auto const found = locator.first();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->operation, "dense");
  EXPECT_EQ(found->layer, "");
  EXPECT_THAT(message_of<std::runtime_error>([&] { locator.require_finite(); }),
              HasSubstr("forward of \"dense\", called at "));
}

}  // namespace
}  // namespace msstream::testing
