// SPDX-License-Identifier: Apache-2.0
#include "random/quick_normal.hpp"

#include "common/philox.hpp"
#include "kernels/kernel_fixture.hpp"
#include "random/draw.hpp"
#include "random/fill.hpp"
#include "random/fill_math.hpp"
#include "random/normal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr std::int64_t kWords = 400'000;

/// Returns the words at the ends and in the middle of the distribution, and random ones.
std::vector<std::uint32_t> words_of_tests(Random& random) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    words.insert(words.end(), {i, ~i, 0x80000000U + i, 0x7FFFFFFFU - i, i << 20U, ~(i << 20U)});
  }
  while (std::ssize(words) < kWords) {
    words.push_back(static_cast<std::uint32_t>(random.integer(0, 0xFFFFFFFF)));
  }
  return words;
}

RandomFillArgs normal_args(double mean, double deviation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {.data = nullptr,
          .dtype = DType::float32,
          .count = 0,
          .key = 0,
          .is_normal = true,
          .base = mean,
          .factor = deviation,
          .low = -kInfinity,
          .high = kInfinity};
}

TEST(QuickNormal, its_relative_error_is_bounded) {
  Random random;
  std::int64_t far = 0;
  for (auto const word : words_of_tests(random)) {
    double const probability = random_unit(word).value;
    double const from_half[1] = {probability - 0.5};
    double z[1] = {};
    if (quick_inverse_normal(from_half, z) != 0) {
      ASSERT_LT(std::min(probability, 1.0 - probability), 2e-4) << word;
      ++far;
      continue;
    }
    double const exact = inverse_normal(probability);
    ASSERT_LE(std::abs(z[0] - exact), kQuickNormalError * std::abs(exact)) << word;
  }
  EXPECT_GT(far, 0);
}

TEST(QuickNormal, elements_have_the_bits_of_the_formula_or_are_left_to_it) {
  Random random;
  auto const words = words_of_tests(random);
  auto truncated = normal_args(0.5, -2.0);
  truncated.low = -3.0F;
  truncated.high = 4.0F;
  truncated.first_probability = normal_probability(-1.75);
  truncated.probabilities = normal_probability(1.75) - truncated.first_probability;
  auto tail = normal_args(0.0, -1.0);
  tail.low = 2.0F;
  tail.first_probability = 0.0;
  tail.probabilities = normal_probability(-2.0);
  for (auto const& args : {normal_args(0.0, 1.0),
                           normal_args(0.0, 0.02),
                           normal_args(1.0, 1e-7),
                           normal_args(-3.0, 2.0),
                           normal_args(1e30, 1e-3),
                           normal_args(0.0, 0.0),
                           normal_args(0.0, 1e-42),
                           normal_args(0.0, 1e38),
                           truncated,
                           tail}) {
    SCOPED_TRACE(fmt::format("{} + {} z", args.base, args.factor));
    std::int64_t left = 0;
    for (std::size_t i = 0; i + 4 <= words.size(); i += 4) {
      std::uint32_t const four[4] = {words[i], words[i + 1], words[i + 2], words[i + 3]};
      float elements[4] = {};
      auto const pending = quick_normal_elements(args, four, elements);
      for (unsigned k = 0; k < 4; ++k) {
        if ((pending >> k & 1U) != 0) {
          ++left;
        } else {
          ASSERT_EQ(elements[k], random_element(args, four[k])) << four[k];
        }
      }
    }
    // About 2,000 of the drawn words give numbers too far from the mean for the polynomials.
    EXPECT_LT(left, kWords / 50);
  }
}

template <class Stream>
class QuickNormalKernelTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(QuickNormalKernelTest, StreamKinds, StreamKindName);

// One element in 2,200 takes another path than the others of its Philox block.
TYPED_TEST(QuickNormalKernelTest, a_large_fill_has_the_bits_of_the_formula) {
  constexpr std::int64_t kCount = 1'000'003;
  auto const output = this->guarded(kCount);
  auto args = normal_args(0.0, 0.05);
  args.key = static_cast<std::uint64_t>(this->random.integer(0, std::int64_t{1} << 62U));
  args.data = output.data();
  args.count = kCount;
  random_fill(this->stream(), args);
  auto const filled = this->read(output);
  for (std::int64_t i = 0; i < kCount; ++i) {
    auto const word = philox(fill_counter(i / 4), args.key).at[i % 4];
    ASSERT_EQ(filled[static_cast<std::size_t>(i)], random_element(args, word)) << i;
  }
}

TYPED_TEST(QuickNormalKernelTest, results_at_any_address_have_equal_bits) {
  RandomState const state{0x123456789ABCDEFULL, 3};
  auto const at = this->upload(std::vector<RandomState>{state});
  for (bool const is_normal : {false, true}) {
    for (std::int64_t const count : {1, 4, 31, 1000, 8192}) {
      std::vector<float> fill_of_first;
      std::vector<float> draw_of_first;
      for (std::int64_t offset = 0; offset < 5; ++offset) {
        SCOPED_TRACE(fmt::format("{} elements from {}, normal {}", count, offset, is_normal));
        auto args = normal_args(0.25, 1.5);
        args.is_normal = is_normal;
        args.key = 5;
        args.count = count;
        auto const filled = this->guarded(count, offset);
        args.data = filled.data();
        random_fill(this->stream(), args);
        auto const drawn = this->guarded(2 * count, offset);
        args.data = drawn.data();
        draw_reals(this->stream(),
                   {.places = {.samples = 2,
                               .columns = count,
                               .first_sample = 0,
                               .stream = 9,
                               .state = at.data()},
                    .fill = args});
        auto const fill = this->read(filled);
        auto const draw = this->read(drawn);
        if (offset == 0) {
          fill_of_first = fill;
          draw_of_first = draw;
        }
        EXPECT_EQ(fill, fill_of_first);
        EXPECT_EQ(draw, draw_of_first);
      }
    }
  }
}

TYPED_TEST(QuickNormalKernelTest, half_precision_at_any_address_is_rounded_float32) {
  constexpr std::int64_t kCount = 1003;
  for (std::int64_t offset = 0; offset < 5; ++offset) {
    auto args = normal_args(0.0, 0.1);
    args.key = 6;
    args.count = kCount;
    args.dtype = DType::bfloat16;
    auto const output = this->template poisoned<bfloat16>(kCount + 8);
    args.data = output.data() + offset;
    random_fill(this->stream(), args);
    auto const found = this->read(output);
    for (std::int64_t i = 0; i < kCount + 8; ++i) {
      auto const element = i - offset;
      bool const is_filled = element >= 0 && element < kCount;
      auto const word = is_filled ? philox(fill_counter(element / 4), args.key).at[element % 4] : 0;
      auto const expected = from_float<bfloat16>(random_element(args, word)).bits;
      ASSERT_EQ(found[static_cast<std::size_t>(i)].bits, is_filled ? expected : 0xFFFFU) << i;
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
