// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace msstream::testing {
namespace {

template <class R>
class RandomTest : public OpsTest<R> {
 protected:
  [[nodiscard]] Floats normal(std::int64_t count, RandomKey const& key) const {
    return to_host(ops::random_normal(this->device(), {count}, key));
  }
  /// Returns the share of elements that are not 0.
  static double kept(Floats const& values) {
    return static_cast<double>(std::ranges::count_if(values, [](float x) { return x != 0.0F; })) /
           static_cast<double>(values.size());
  }
};
TYPED_TEST_SUITE(RandomTest, Runtimes, RuntimeNames);

/// Returns mean and variance.
std::pair<double, double> moments(Floats const& values) {
  auto const n = static_cast<double>(values.size());
  double const mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (double const x : values) {
    squares += (x - mean) * (x - mean);
  }
  return {mean, squares / n};
}

constexpr std::int64_t kDrawn = 200'000;

TYPED_TEST(RandomTest, fills_have_their_distributions) {
  auto const key = RandomKey(7, "weights");
  auto const uniform = to_host(ops::random_uniform(this->device(), {kDrawn}, key, -0.5F, 1.5F));
  auto const [uniform_mean, uniform_variance] = moments(uniform);
  EXPECT_NEAR(uniform_mean, 0.5, 0.01);
  EXPECT_NEAR(uniform_variance, 4.0 / 12, 0.01);
  EXPECT_GE(*std::ranges::min_element(uniform), -0.5F);
  EXPECT_LE(*std::ranges::max_element(uniform), 1.5F);

  auto const [mean, variance] =
      moments(to_host(ops::random_normal(this->device(), {kDrawn}, key, 1.0F, 2.0F)));
  EXPECT_NEAR(mean, 1.0, 0.03);
  EXPECT_NEAR(variance, 4.0, 0.1);

  auto const truncated =
      to_host(ops::random_truncated_normal(this->device(), {kDrawn}, key, 0.0F, 1.0F, -2.0F, 2.0F));
  auto const [truncated_mean, truncated_variance] = moments(truncated);
  EXPECT_NEAR(truncated_mean, 0.0, 0.01);
  EXPECT_NEAR(truncated_variance, 0.7737, 0.01);
  EXPECT_GE(*std::ranges::min_element(truncated), -2.0F);
  EXPECT_LE(*std::ranges::max_element(truncated), 2.0F);
}

TYPED_TEST(RandomTest, a_truncated_tail_is_drawn_from_the_tail) {
  auto const high = to_host(ops::random_truncated_normal(
      this->device(), {1000}, RandomKey(1, 2), 0.0F, 1.0F, 8.0F, 9.0F));
  for (float const x : high) {
    ASSERT_GE(x, 8.0F);
    ASSERT_LE(x, 9.0F);
  }
  // The mean of a normal variable above 8 is 8.12.
  EXPECT_NEAR(moments(high).first, 8.12, 0.02);
  auto const above = to_host(ops::random_truncated_normal(this->device(),
                                                          {1000},
                                                          RandomKey(1, 2),
                                                          0.0F,
                                                          1.0F,
                                                          1.0F,
                                                          std::numeric_limits<float>::infinity()));
  EXPECT_GE(*std::ranges::min_element(above), 1.0F);
  EXPECT_NEAR(moments(above).first, 1.525, 0.05);
}

// The bits are those of CUDA and of the host alike: this suite runs on both.
TYPED_TEST(RandomTest, known_bits) {
  EXPECT_EQ(RandomKey::stream_of(""), 0xCBF29CE484222325ULL);
  EXPECT_EQ(RandomKey::stream_of("a"), 0xAF63DC4C8601EC8CULL);
  auto const uniform = to_host(ops::random_uniform(this->device(), {3}, RandomKey(42, "x")));
  auto const normal = this->normal(3, RandomKey(42, "x"));
  EXPECT_EQ(uniform, (Floats{0x1.4d396p-5F, 0x1.fe3bc2p-2F, 0x1.7f9aa4p-2F}));
  EXPECT_EQ(normal, (Floats{-0x1.be2dc6p+0F, -0x1.1b673cp-8F, -0x1.4754bep-2F}));
}

TYPED_TEST(RandomTest, numbers_depend_on_seed_name_and_place_alone) {
  auto const first = this->normal(1000, RandomKey(7, "a"));
  EXPECT_EQ(this->normal(1000, RandomKey(7, "a")), first);
  EXPECT_EQ(this->normal(1000, RandomKey(7, RandomKey::stream_of("a"))), first);
  EXPECT_NE(this->normal(1000, RandomKey(7, "b")), first);
  EXPECT_NE(this->normal(1000, RandomKey(8, "a")), first);
  auto const longer = this->normal(1501, RandomKey(7, "a"));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
}

TYPED_TEST(RandomTest, fills_refuse_other_ranges) {
  auto const x = this->any({3});
  auto const infinity = std::numeric_limits<float>::infinity();
  expect_refused([&] { ops::fill_uniform(x, {}, 1.0F, 0.0F); }, "fill_uniform", "low 1", "high 0");
  expect_refused([&] { ops::fill_uniform(x, {}, 0.0F, infinity); }, "fill_uniform", "inf");
  expect_refused([&] { ops::fill_normal(x, {}, 0.0F, -1.0F); }, "fill_normal", "deviation -1");
  expect_refused([&] { ops::fill_truncated_normal(x, {}, 0.0F, 0.0F); }, "deviation 0");
  expect_refused([&] { ops::fill_truncated_normal(x, {}, 0.0F, 1.0F, 2.0F, 2.0F); },
                 "fill_truncated_normal",
                 "low 2");
  expect_refused([&] { ops::fill_normal(this->template any<std::int64_t>({3}), {}); },
                 "fill_normal");
}

TYPED_TEST(RandomTest, dropout_drops_at_its_rate_and_scales_the_rest) {
  RandomGenerator random(this->device(), {.seed = 3});
  auto const ones = this->put(Floats(100'000, 1.0F), {1000, 100});
  auto const result = ops::dropout(ones, {.rate = 0.25F}, random, "layer");
  auto const output = to_host(result.output);
  EXPECT_NEAR(this->kept(output), 0.75, 0.01);
  for (float const x : output) {
    ASSERT_TRUE(x == 0.0F || x == static_cast<float>(1 / 0.75)) << x;
  }
  EXPECT_EQ(result.output.shape(), ones.shape());
  EXPECT_EQ(to_host(*result.drawn), (Integers{3, 0}));
}

TYPED_TEST(RandomTest, steps_names_and_seeds_draw_differently) {
  auto const ones = this->put(Floats(1000, 1.0F), {10, 100});
  ops::DropoutOptions const options{.rate = 0.5F};
  RandomGenerator random(this->device(), {.seed = 3});
  auto const draw = [&](RandomGenerator<TypeParam> const& from, char const* name) {
    return to_host(ops::dropout(ones, options, from, name).output);
  };
  auto const first = draw(random, "a");
  EXPECT_EQ(draw(random, "a"), first);
  EXPECT_NE(draw(random, "b"), first);
  EXPECT_NE(draw(RandomGenerator(this->device(), {.seed = 4}), "a"), first);
  random.advance();
  EXPECT_NE(draw(random, "a"), first);
  EXPECT_EQ(to_host(random.tensor()), (Integers{3, 1}));
}

TYPED_TEST(RandomTest, parts_of_a_batch_drop_what_the_batch_drops) {
  constexpr std::int64_t kBatch = 37;
  constexpr std::int64_t kWidth = 13;
  RandomGenerator random(this->device());
  auto const x = this->random_tensor({kBatch, kWidth});
  auto const whole = to_host(ops::dropout(x, {.rate = 0.5F}, random, "a").output);
  Floats parts;
  for (std::int64_t first = 0; first < kBatch; first += 10) {
    auto const last = std::min(first + 10, kBatch);
    auto const part = to_host(
        ops::dropout(x.rows(first, last), {.rate = 0.5F, .first_sample = first}, random, "a")
            .output);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
}

TYPED_TEST(RandomTest, the_gradient_drops_what_the_forward_dropped) {
  RandomGenerator random(this->device(), {.seed = 9});
  ops::DropoutOptions const options{.rate = 0.3F, .first_sample = 5};
  auto const ones = this->put(Floats(33 * 31, 1.0F), {33, 31});
  auto const result = ops::dropout(ones, options, random, "a");
  random.advance();
  random.advance();
  EXPECT_EQ(to_host(ops::dropout_gradient(ones, result.drawn, options, "a")),
            to_host(result.output));
}

TYPED_TEST(RandomTest, a_rate_of_0_is_the_identity) {
  RandomGenerator random(this->device());
  auto const x = this->random_tensor({3, 4});
  auto const result = ops::dropout(x, {.rate = 0.0F}, random, "a");
  EXPECT_EQ(result.output.data(), x.data());
  EXPECT_FALSE(result.drawn.has_value());
  EXPECT_EQ(ops::dropout_gradient(x, result.drawn, {.rate = 0.0F}, "a").data(), x.data());
}

TYPED_TEST(RandomTest, dropped_infinities_become_0) {
  RandomGenerator random(this->device());
  auto const x = this->put(Floats(1000, std::numeric_limits<float>::infinity()));
  auto const output = to_host(ops::dropout(x, {.rate = 0.5F}, random, "a").output);
  EXPECT_NEAR(this->kept(output), 0.5, 0.1);
  EXPECT_TRUE(std::ranges::none_of(output, [](float v) { return std::isnan(v); }));
}

TYPED_TEST(RandomTest, tensors_without_elements) {
  RandomGenerator random(this->device(), {.seed = 6});
  auto const result = ops::dropout(this->any({0, 3}), {.rate = 0.5F}, random, "a");
  EXPECT_TRUE(to_host(result.output).empty());
  EXPECT_EQ(to_host(*result.drawn), (Integers{6, 0}));
  EXPECT_TRUE(to_host(ops::random_normal(this->device(), {0}, RandomKey(1, 1))).empty());
}

TYPED_TEST(RandomTest, dropout_refuses_other_ranges) {
  RandomGenerator random(this->device());
  auto const x = this->any({2, 3});
  auto const with = [&](ops::DropoutOptions const& options) {
    return [&random, x, options] { (void)ops::dropout(x, options, random, "a"); };
  };
  expect_refused(with({.rate = 1.0F}), "dropout", "rate of 1", "[0, 1)");
  expect_refused(with({.rate = -0.1F}), "dropout", "rate of -0.1");
  expect_refused(with({.rate = std::numeric_limits<float>::quiet_NaN()}), "dropout", "rate");
  expect_refused(with({.rate = 0.1F, .first_sample = -1}), "dropout", "first_sample of -1");
  expect_refused(with({.rate = 0.1F, .first_sample = std::int64_t{1} << 60U}), "first_sample");
  expect_refused([&] { (void)ops::dropout_gradient(x, std::nullopt, {.rate = 0.5F}, "a"); },
                 "dropout_gradient");
}

TYPED_TEST(RandomTest, a_restored_state_draws_the_same_numbers) {
  RandomGenerator random(this->device(), {.seed = 11});
  auto const ones = this->put(Floats(500, 1.0F));
  random.advance();
  random.advance();
  std::vector<std::pair<std::string, Integers>> saved;
  random.visit_state([&](std::string const& name, Tensor<std::int64_t, TypeParam> const& state) {
    saved.emplace_back(name, to_host(state));
  });
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].first, "random");
  auto const expected = to_host(ops::dropout(ones, {.rate = 0.5F}, random, "a").output);
  RandomGenerator resumed(this->device());
  resumed.visit_state([&](std::string const&, Tensor<std::int64_t, TypeParam> const& state) {
    copy(state, this->put(saved[0].second));
  });
  EXPECT_EQ(to_host(ops::dropout(ones, {.rate = 0.5F}, resumed, "a").output), expected);
}

}  // namespace
}  // namespace msstream::testing
