// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "step/finite_searches.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class R>
class NonFiniteLocatorTest : public OpsTest<R> {
 protected:
  using Phase = typename NonFiniteLocator<R>::Phase;

  /// Sums log(x) below a scope, on another group.
  [[nodiscard]] Tensor<float, R> loss_of(GradientTape<R>& tape,
                                         StreamPool<R>& pool,
                                         Tensor<float, R> const& x) const {
    StreamScope const scope(pool[1], {.include_grad = true});
    NameScope const named("tower");
    auto const rooted = ops::sqrt(tape, ops::scale(tape, x, 1.0F));
    return ops::sum(tape, ops::scale(tape, rooted, 2.0F));
  }
};
TYPED_TEST_SUITE(NonFiniteLocatorTest, Runtimes, RuntimeNames);

TYPED_TEST(NonFiniteLocatorTest, names_the_operation_whose_result_is_not_finite) {
  StreamPool pool(this->device(), {.groups = 2});
  GradientTape tape(this->device());
  NonFiniteLocator const locator(tape);
  (void)this->loss_of(tape, pool, this->put(Floats{1, 2, 3}));
  locator.require_finite();
  tape.clear();
  (void)this->loss_of(tape, pool, this->put(Floats{1, 2, -3, 4, -5}));
  auto const found = locator.first();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, TestFixture::Phase::forward);
  EXPECT_EQ(found->operation, "tower/sqrt");
  EXPECT_EQ(found->element, 2);
  EXPECT_EQ(found->shape, Shape{5});
  EXPECT_THAT(message_of<std::runtime_error>([&] { locator.require_finite(); }),
              AllOf(HasSubstr("forward of \"tower/sqrt\""),
                    HasSubstr("non_finite_locator_test.cpp:"),
                    HasSubstr("element 2 of a result [5]")));
}

TYPED_TEST(NonFiniteLocatorTest, names_operations_whose_shapes_differ_from_step_to_step) {
  StreamPool pool(this->device(), {.groups = 2});
  GradientTape tape(this->device());
  NonFiniteLocator const locator(tape);
  auto const run = [&](std::int64_t count, float last) {
    tape.clear();
    Floats values(static_cast<std::size_t>(count), 1.0F);
    values.back() = last;
    (void)this->loss_of(tape, pool, this->put(values));
  };
  for (std::int64_t count = 1; count <= 20; ++count) {
    run(count, 1.0F);
    locator.require_finite();
  }
  run(30, -1.0F);
  auto const made = locator.first();
  ASSERT_TRUE(made);
  EXPECT_EQ(made->operation, "tower/sqrt");
  EXPECT_EQ(made->element, 29);
  EXPECT_EQ(made->shape, Shape{30});
  run(40, -1.0F);
  EXPECT_EQ(locator.first()->operation, "tower/sqrt");
  EXPECT_EQ(locator.first()->element, 29) << "the first of both";
}

TEST(FiniteSearches, of_steps_without_end_are_refused) {
  Device<Host> const device;
  detail::FiniteSearches searches(device.state(), std::nullopt, std::source_location::current());
  auto const good = to_device(device, Floats{1}, {1});
  auto const bad = to_device(device, Floats{std::nanf("")}, {1});
  auto const search = [&](Tensor<float, Host> const& values) {
    searches.search_update("w", values.any(), std::source_location::current());
  };
  auto const message = message_of<std::length_error>([&] {
    for (int i = 0; i < 70'000; ++i) {
      search(good);
    }
  });
  EXPECT_THAT(message, AllOf(HasSubstr("65536th operation"), HasSubstr("clear() once a step")));
  searches.begin_step();
  search(bad);
  EXPECT_TRUE(searches.first(std::source_location::current()));
}

TYPED_TEST(NonFiniteLocatorTest, names_the_operation_whose_gradient_is_not_finite) {
  StreamPool pool(this->device(), {.groups = 2});
  GradientTape tape(this->device());
  NonFiniteLocator locator(tape);
  tape.backward(this->loss_of(tape, pool, this->put(Floats{1, 0, 4})));
  auto const found = locator.first();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, TestFixture::Phase::backward);
  EXPECT_EQ(found->operation, "tower/sqrt");
  EXPECT_EQ(found->element, 1);
  locator.forget();
  EXPECT_FALSE(locator.first());
}

TYPED_TEST(NonFiniteLocatorTest, names_the_input_that_was_not_finite_before) {
  float const nan = std::nanf("");
  auto const weight = this->put(Floats{1, 2}, {2, 1});
  auto const bias = this->put(Floats{0});
  auto const table = this->put(Floats{0, 1, 2, 3}, {2, 2});
  auto const features = this->put(Floats{1, 2, 3, 4}, {2, 2});
  auto const labels = this->put(Floats{0, 1}, {2, 1});
  auto const classes = this->put(Integers{1, 0});
  auto const of_rows = this->put(Floats{1, 2});
  GradientTape tape(this->device());
  NonFiniteLocator locator(tape);
  auto const run = [&] {
    tape.clear();
    NameScope const named("tower");
    auto const rows = ops::embedding_lookup(tape, table, {this->put(Integers{0, 1})});
    auto const mixed = ops::add(tape, std::vector{rows, features});
    auto const logits = ops::dense(tape, mixed, weight, bias);
    auto const of_logits = ops::mean_bce_with_logits(tape, logits, labels);
    auto const of_classes =
        ops::mean_softmax_cross_entropy(tape, mixed, classes, {.sample_weight = of_rows});
    tape.backward(ops::add(tape, std::vector{of_logits, of_classes}));
    return locator.first();
  };
  EXPECT_FALSE(run());
  struct Case {
    Tensor<float, TypeParam> input;
    Floats values;
    char const* operation;
    std::int64_t element;
  };
  for (auto const& [input, values, operation, element] :
       {Case{features, {1, 2, nan, INFINITY}, "tower/add", 2},
        Case{weight, {1, -INFINITY}, "tower/dense", 1},
        Case{bias, {nan}, "tower/dense", 0},
        Case{table, {0, nan, 2, 3}, "tower/embedding_lookup", 1},
        Case{labels, {0, nan}, "tower/mean_bce_with_logits", 1},
        Case{of_rows, {1, nan}, "tower/mean_softmax_cross_entropy", 1}}) {
    SCOPED_TRACE(operation);
    auto const own = to_host(input);
    copy(input, this->put(values, input.shape()));
    auto const found = run();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->phase, TestFixture::Phase::input);
    EXPECT_EQ(found->operation, operation);
    EXPECT_EQ(found->shape, input.shape());
    EXPECT_EQ(found->element, element);
    EXPECT_THAT(
        message_of<std::runtime_error>([&] { locator.require_finite(); }),
        AllOf(HasSubstr(fmt::format("an input {} of \"{}\", called at ", input.shape(), operation)),
              HasSubstr("had a NaN or an infinity before"),
              HasSubstr(fmt::format("element {} of data or of a parameter", element))));
    copy(input, this->put(own, input.shape()));
    EXPECT_EQ(run()->element, element) << "of the step before";
    locator.forget();
    EXPECT_FALSE(run());
  }
}

TYPED_TEST(NonFiniteLocatorTest, an_input_that_spoils_no_result_is_not_named) {
  auto const x = this->put(Floats{1, -INFINITY, INFINITY});
  auto const y = this->put(Floats{3e38F, 1, 1});
  GradientTape tape(this->device());
  NonFiniteLocator const locator(tape);
  (void)ops::clamp(tape, x, 0.0F, 1.0F);
  EXPECT_FALSE(locator.first());
  auto const step = [&] {
    (void)ops::add(tape, y, y);
    tape.clear();
  };
  step();
  EXPECT_EQ(locator.first()->phase, TestFixture::Phase::forward) << "its inputs are finite";
  copy(y, this->put(Floats{1, INFINITY, 1}));
  step();
  EXPECT_EQ(locator.first()->phase, TestFixture::Phase::forward) << "of the step before";
  EXPECT_EQ(locator.first()->element, 0);
}

TYPED_TEST(NonFiniteLocatorTest, finds_gradients_of_rows_and_updates) {
  auto const w = this->put(Floats{3e38F, 1});
  auto const table = this->put(Floats(8, 1.0F), {4, 2});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 3e38F});
  optimizer.add("top/w", w);
  optimizer.add_table("table", table);
  GradientTape tape(this->device());
  auto const step = [&](float factor) {
    auto const rows = ops::embedding_lookup(tape, table, {this->put(Integers{1, 1})});
    tape.backward(ops::add(tape,
                           std::vector{ops::scale(tape, ops::sum(tape, w), -1e-3F),
                                       ops::scale(tape, ops::sum(tape, rows), factor)}));
    optimizer.step(tape);
    tape.clear();
  };
  {
    NonFiniteLocator const locator(tape);
    EXPECT_THROW(NonFiniteLocator{tape}, std::logic_error);
    step(0.0F);
    EXPECT_FALSE(locator.first());
    copy(w, this->put(Floats{3.4e38F, 1}));
    step(0.0F);
    auto const found = locator.first();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->phase, TestFixture::Phase::update);
    EXPECT_EQ(found->operation, "top/w");
    EXPECT_EQ(found->element, 0);
  }
  copy(w, this->put(Floats{1, 1}));
  NonFiniteLocator const locator(tape);
  step(std::numeric_limits<float>::infinity());
  auto const found = locator.first();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->operation, HasSubstr("scale")) << "the loss is infinite first";
}

TYPED_TEST(NonFiniteLocatorTest, finds_the_first_in_replays) {
  if constexpr (CapturingRuntime<TypeParam>) {
    StreamPool pool(this->device(), {.groups = 2});
    auto const x = this->put(Floats{1, 2, 3});
    GradientTape tape(this->device());
    NonFiniteLocator const locator(tape);
    auto const step = [&] {
      tape.backward(this->loss_of(tape, pool, x));
      tape.clear();
    };
    step();
    CapturedStep<TypeParam> captured(this->device(), step);
    captured.replay();
    EXPECT_FALSE(locator.first());
    copy(x, this->put(Floats{1, 2, 0}));
    captured.replay();
    copy(x, this->put(Floats{1, -2, 0}));
    captured.replay();
    auto const found = locator.first();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->phase, TestFixture::Phase::backward) << "of the replay before the last";
    EXPECT_EQ(found->operation, "tower/sqrt");
    EXPECT_EQ(found->element, 2);
  }
}

}  // namespace
}  // namespace msstream::testing
