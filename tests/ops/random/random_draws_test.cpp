// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/random_draws.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace msstream::testing {
namespace {

template <class R>
class RandomDrawsTest : public OpsTest<R> {
 protected:
  /// Returns integers, uniform and normal numbers of a generator and a name, one after the other.
  [[nodiscard]] Doubles draws(RandomGenerator<R> const& random,
                              char const* name,
                              Shape const& shape,
                              std::int64_t first_sample = 0) const {
    ops::DrawOptions const options{.first_sample = first_sample};
    auto all = to_doubles(to_host(ops::random_uniform(random, name, shape, -1.0F, 3.0F, options)));
    auto const append = [&all](auto const& tensor) {
      for (auto const element : to_host(tensor)) {
        all.push_back(static_cast<double>(element));
      }
    };
    append(ops::random_normal(random, name, shape, 0.5F, 2.0F, options));
    append(ops::random_integers(random, name, shape, -5, 1000, options));
    return all;
  }
};
TYPED_TEST_SUITE(RandomDrawsTest, Runtimes, RuntimeNames);

TYPED_TEST(RandomDrawsTest, have_their_distributions) {
  constexpr std::int64_t kRows = 2000;
  constexpr std::int64_t kColumns = 100;
  constexpr auto kCount = static_cast<double>(kRows * kColumns);
  RandomGenerator const random(this->device(), {.seed = 3});
  auto const mean_and_variance = [&](auto const& values) {
    double sum = 0;
    double squares = 0;
    for (auto const value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    return std::pair(sum / kCount, squares / kCount - sum / kCount * (sum / kCount));
  };
  auto const uniform =
      to_host(ops::random_uniform(random, "uniform", {kRows, kColumns}, -0.5F, 1.5F));
  EXPECT_NEAR(mean_and_variance(uniform).first, 0.5, 0.01);
  EXPECT_NEAR(mean_and_variance(uniform).second, 4.0 / 12, 0.01);
  EXPECT_GE(*std::ranges::min_element(uniform), -0.5F);
  EXPECT_LE(*std::ranges::max_element(uniform), 1.5F);
  auto const normal = to_host(ops::random_normal(random, "normal", {kRows, kColumns}, 1.0F, 2.0F));
  EXPECT_NEAR(mean_and_variance(normal).first, 1.0, 0.03);
  EXPECT_NEAR(mean_and_variance(normal).second, 4.0, 0.1);
  auto const integers = to_host(ops::random_integers(random, "integers", {kRows, kColumns}, -2, 5));
  std::vector<double> counts(7, 0.0);
  for (auto const value : integers) {
    ASSERT_TRUE(value >= -2 && value < 5) << value;
    counts[static_cast<std::size_t>(value + 2)] += 1;
  }
  // The sum is below 35 with a probability of 1 - 4e-6, for six degrees of freedom.
  double chi_squared = 0;
  for (auto const count : counts) {
    chi_squared += (count - kCount / 7) * (count - kCount / 7) / (kCount / 7);
  }
  EXPECT_LT(chi_squared, 35.0);
  auto const wide = to_host(ops::random_integers(random,
                                                 "wide",
                                                 {kRows, kColumns},
                                                 std::numeric_limits<std::int64_t>::min(),
                                                 std::numeric_limits<std::int64_t>::max()));
  EXPECT_NEAR(mean_and_variance(wide).first / 0x1p63, 0.0, 0.01);
  EXPECT_NEAR(mean_and_variance(wide).second / 0x1p126, 1.0 / 3, 0.01);
}

TYPED_TEST(RandomDrawsTest, depend_on_seed_step_name_and_sample_alone) {
  RandomGenerator random(this->device(), {.seed = 3});
  auto const first = this->draws(random, "a", {10, 7});
  EXPECT_EQ(this->draws(random, "a", {10, 7}), first);
  EXPECT_NE(this->draws(random, "b", {10, 7}), first);
  EXPECT_NE(this->draws(RandomGenerator(this->device(), {.seed = 4}), "a", {10, 7}), first);
  EXPECT_EQ(this->draws(RandomGenerator(this->device(), {.seed = 3}), "a", {10, 7}), first);
  EXPECT_NE(this->draws(random, "a", {10, 7}, 1), first);
  random.advance();
  EXPECT_NE(this->draws(random, "a", {10, 7}), first);
  EXPECT_EQ(to_host(random.tensor()), (Integers{3, 1}));
  // Other samples, and other columns of one, have numbers of their own.
  auto const integers = to_host(
      ops::random_integers(random, "a", {3, 3}, 0, std::numeric_limits<std::int64_t>::max()));
  for (std::size_t i = 0; i < integers.size(); ++i) {
    EXPECT_EQ(std::ranges::count(integers, integers[i]), 1);
  }
}

TYPED_TEST(RandomDrawsTest, of_parts_of_a_batch_are_those_of_the_batch) {
  RandomGenerator const random(this->device());
  for (std::int64_t const columns : {1, 3, 4, 13}) {
    auto const whole = to_host(ops::random_integers(random, "a", {37, columns}, 0, 1'000'000));
    auto const noise = to_host(ops::random_normal(random, "b", {37, columns}));
    Integers parts;
    Floats of_noise;
    for (std::int64_t first = 0; first < 37; first += 10) {
      auto const rows = std::min<std::int64_t>(10, 37 - first);
      for (auto const value : to_host(ops::random_integers(
               random, "a", {rows, columns}, 0, 1'000'000, {.first_sample = first}))) {
        parts.push_back(value);
      }
      for (auto const value : to_host(ops::random_normal(
               random, "b", {rows, columns}, 0.0F, 1.0F, {.first_sample = first}))) {
        of_noise.push_back(value);
      }
    }
    EXPECT_EQ(parts, whole);
    EXPECT_EQ(of_noise, noise);
  }
}

TYPED_TEST(RandomDrawsTest, of_other_types_and_shapes) {
  RandomGenerator const random(this->device(), {.seed = 8});
  auto const floats = to_host(ops::random_normal(random, "a", {5, 7}));
  auto const halves = to_host(ops::random_normal<float16>(random, "a", {5, 7}));
  auto const brains = to_host(ops::random_normal<bfloat16>(random, "a", {5, 7}));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(halves[i].bits, from_float<float16>(floats[i]).bits);
    EXPECT_EQ(brains[i].bits, from_float<bfloat16>(floats[i]).bits);
  }
  auto const wide = to_host(ops::random_integers(random, "a", {5, 7}, -3, 100));
  auto const narrow = to_host(ops::random_integers<std::int32_t>(random, "a", {5, 7}, -3, 100));
  EXPECT_EQ(Integers(narrow.begin(), narrow.end()), wide);
  // The columns of a sample are its elements, whatever their shape is.
  EXPECT_EQ(to_host(ops::random_integers(random, "a", {5, 7, 1}, -3, 100)), wide);
  EXPECT_EQ(ops::random_uniform(random, "a", {2, 3, 4}).shape(), (Shape{2, 3, 4}));
  EXPECT_TRUE(to_host(ops::random_uniform(random, "a", {0, 3})).empty());
  EXPECT_TRUE(to_host(ops::random_integers(random, "a", {3, 0}, 0, 2)).empty());
  EXPECT_EQ(to_host(ops::random_integers(random, "a", {4}, 6, 7)), Integers(4, 6));
  EXPECT_EQ(to_host(ops::random_uniform(random, "a", Shape{})),
            to_host(ops::random_uniform(random, "a", {1})));
}

TYPED_TEST(RandomDrawsTest, a_restored_state_draws_the_same_numbers) {
  RandomGenerator random(this->device(), {.seed = 11});
  random.advance();
  random.advance();
  Integers saved;
  random.visit_state([&](std::string const&, Tensor<std::int64_t, TypeParam> const& state) {
    saved = to_host(state);
  });
  auto const expected = this->draws(random, "a", {50, 3});
  RandomGenerator resumed(this->device());
  resumed.visit_state([&](std::string const&, Tensor<std::int64_t, TypeParam> const& state) {
    copy(state, this->put(saved));
  });
  EXPECT_EQ(this->draws(resumed, "a", {50, 3}), expected);
}

TYPED_TEST(RandomDrawsTest, refuse_other_ranges) {
  RandomGenerator const random(this->device());
  auto const infinity = std::numeric_limits<float>::infinity();
  expect_refused([&] { (void)ops::random_uniform(random, "a", {2}, 2.0F, 1.0F); },
                 "random_uniform: low 2, high 1");
  expect_refused([&] { (void)ops::random_uniform(random, "a", {2}, 0.0F, infinity); },
                 "random_uniform");
  expect_refused([&] { (void)ops::random_normal(random, "a", {2}, 0.0F, -1.0F); },
                 "random_normal: mean 0, deviation -1");
  expect_refused([&] { (void)ops::random_integers(random, "a", {2}, 3, 3); },
                 "random_integers: low 3, high 3");
  expect_refused(
      [&] { (void)ops::random_integers<std::int32_t>(random, "a", {2}, 0, 0x80000001LL); },
      "random_integers",
      "int32");
  EXPECT_EQ(
      to_host(ops::random_integers<std::int32_t>(random, "a", {2}, 0x7FFFFFFFLL, 0x80000000LL)),
      (std::vector<std::int32_t>{0x7FFFFFFF, 0x7FFFFFFF}));
  expect_refused([&] { (void)ops::random_uniform<std::int64_t>(random, "a", {2}); },
                 "random_uniform of int64");
  expect_refused(
      [&] { (void)ops::random_normal(random, "a", {2}, 0.0F, 1.0F, {.first_sample = -1}); },
      "random_normal: first_sample of -1");
  expect_refused(
      [&] {
        (void)ops::random_integers(
            random, "a", {2}, 0, 9, {.first_sample = std::int64_t{1} << 60U});
      },
      "random_integers: first_sample");
}

}  // namespace
}  // namespace msstream::testing
