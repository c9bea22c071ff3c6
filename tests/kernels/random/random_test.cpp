// SPDX-License-Identifier: Apache-2.0
#include "common/philox.hpp"
#include "kernels/kernel_fixture.hpp"
#include "random/draw.hpp"
#include "random/dropout.hpp"
#include "random/fill.hpp"
#include "random/fill_math.hpp"
#include "random/normal.hpp"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words words_of(Words const& counter, std::uint64_t key) {
  return std::bit_cast<Words>(philox(std::bit_cast<PhiloxWords>(counter), key));
}

// The known answers that the authors of Philox publish with their library Random123.
TEST(Philox, gives_the_known_answers) {
  EXPECT_EQ(words_of({0, 0, 0, 0}, 0), (Words{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U}));
  EXPECT_EQ(words_of({~0U, ~0U, ~0U, ~0U}, ~std::uint64_t{0}),
            (Words{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU}));
  EXPECT_EQ(words_of({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U}, 0x299F31D0A4093822ULL),
            (Words{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U}));
}

TEST(Philox, counters_of_dropouts_and_fills_differ) {
  auto const last = dropout_counter(5, kMostSamples - 1, (std::int64_t{1} << 48U) - 1);
  EXPECT_NE(last.at[3], fill_counter(5).at[3]);
  EXPECT_NE(dropout_counter(0, std::int64_t{1} << 32U, 0).at[3], dropout_counter(0, 0, 0).at[3]);
  EXPECT_NE(dropout_counter(0, 0, std::int64_t{1} << 32U).at[3], dropout_counter(0, 0, 0).at[3]);
}

TEST(InverseNormal, inverts_the_distribution_function) {
  for (double const p :
       {1e-300, 1e-100, 1e-12, 1e-5, 0.01, 0.07499, 0.075, 0.07501, 0.3, 0.5, 0.7, 0.925, 0.99}) {
    double const z = inverse_normal(p);
    double const back = 0.5 * std::erfc(-z / std::sqrt(2.0));
    EXPECT_NEAR(back / p, 1.0, 2e-12 * (1 + z * z)) << p;
  }
  EXPECT_EQ(inverse_normal(0.5), 0.0);
  EXPECT_NEAR(inverse_normal(0.975), 1.959963984540054, 1e-15 * 4);
  EXPECT_EQ(inverse_normal(0.25), -inverse_normal(0.75));
}

TEST(InverseNormal, its_logarithm_is_that_of_the_standard_library) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(rounded_log(x).value, std::log(x), 4e-16 * (1 + std::abs(std::log(x)))) << x;
  }
}

TEST(NormalProbability, is_the_distribution_function) {
  for (double const z : {-37.0, -6.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 6.0}) {
    double const expected = 0.5 * std::erfc(-z / std::sqrt(2.0));
    EXPECT_NEAR(normal_probability(z) / expected, 1.0, 1e-11 * (1 + z * z)) << z;
  }
  EXPECT_EQ(normal_probability(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(normal_probability(std::numeric_limits<double>::infinity()), 1.0);
}

template <class Stream>
class RandomKernelTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(RandomKernelTest, StreamKinds, StreamKindName);

constexpr std::int64_t kRandomCounts[] = {0, 1, 3, 4, 5, 31, 32, 33, 127, 4097, 300'001};

TYPED_TEST(RandomKernelTest, fills_have_the_bits_of_the_formula) {
  for (bool const is_normal : {false, true}) {
    for (auto const count : kRandomCounts) {
      SCOPED_TRACE(fmt::format("{} elements, normal {}", count, is_normal));
      auto const output = this->guarded(count);
      RandomFillArgs const args{.data = output.data(),
                                .dtype = DType::float32,
                                .count = count,
                                .key = 0x123456789ABCDEFULL,
                                .is_normal = is_normal,
                                .base = 0.25,
                                .factor = 1.7,
                                .low = -3.0,
                                .high = 1.75};
      random_fill(this->stream(), args);
      auto const filled = this->read(output);
      for (std::int64_t i = 0; i < count; ++i) {
        auto const words = philox(fill_counter(i / 4), args.key);
        ASSERT_EQ(filled[static_cast<std::size_t>(i)], random_element(args, words.at[i % 4])) << i;
      }
    }
  }
}

TYPED_TEST(RandomKernelTest, half_precision_is_rounded_float32) {
  constexpr std::int64_t kCount = 1001;
  RandomFillArgs args{.data = nullptr,
                      .dtype = DType::float16,
                      .count = kCount,
                      .key = 77,
                      .is_normal = true,
                      .base = 0.0,
                      .factor = 0.02,
                      .low = -1.0,
                      .high = 1.0};
  auto const half = this->template poisoned<float16>(kCount);
  auto const brain = this->template poisoned<bfloat16>(kCount);
  args.data = half.data();
  random_fill(this->stream(), args);
  args.data = brain.data();
  args.dtype = DType::bfloat16;
  random_fill(this->stream(), args);
  auto const halves = this->read(half);
  auto const brains = this->read(brain);
  for (std::int64_t i = 0; i < kCount; ++i) {
    auto const x = random_element(args, philox(fill_counter(i / 4), args.key).at[i % 4]);
    EXPECT_EQ(halves[static_cast<std::size_t>(i)].bits, from_float<float16>(x).bits);
    EXPECT_EQ(brains[static_cast<std::size_t>(i)].bits, from_float<bfloat16>(x).bits);
  }
}

TYPED_TEST(RandomKernelTest, dropout_keeps_what_the_formula_says) {
  struct Case {
    std::int64_t samples;
    std::int64_t columns;
    std::int64_t first;
  };
  for (auto const& [samples, columns, first] : {Case{0, 5, 0},
                                                Case{3, 0, 0},
                                                Case{1, 1, 0},
                                                Case{31, 33, 7},
                                                Case{127, 32, (std::int64_t{1} << 33U) + 5},
                                                Case{33, 4097, 1},
                                                Case{4097, 3, 0}}) {
    SCOPED_TRACE(fmt::format("{} x {}", samples, columns));
    auto const input = this->random.reals(samples * columns);
    auto const on_device = this->upload(input);
    auto const output = this->guarded(samples * columns);
    RandomState const state{0xFEDCBA9876543210ULL, 41};
    auto const at = this->upload(std::vector<RandomState>{state});
    auto const drawn = this->template poisoned<RandomState>(1);
    DropoutArgs args{.input = on_device.data(),
                     .output = output.data(),
                     .samples = samples,
                     .columns = columns,
                     .first_sample = first,
                     .stream = 99,
                     .threshold = 0x60000000U,
                     .scale = 1.6F,
                     .state = at.data(),
                     .drawn = drawn.data()};
    dropout(this->stream(), args);
    EXPECT_EQ(this->read(drawn)[0].seed, state.seed);
    EXPECT_EQ(this->read(drawn)[0].step, state.step);
    auto const found = this->read(output);
    for (std::int64_t s = 0; s < samples; ++s) {
      for (std::int64_t c = 0; c < columns; ++c) {
        auto const word = philox(dropout_counter(c / 4, first + s, state.step),
                                 philox_key(state.seed, args.stream))
                              .at[c % 4];
        auto const i = static_cast<std::size_t>(s * columns + c);
        ASSERT_EQ(found[i], word >= args.threshold ? input[i] * args.scale : 0.0F) << s << ' ' << c;
      }
    }
  }
}

TYPED_TEST(RandomKernelTest, dropout_of_half_precision_drops_and_rounds_as_that_of_floats) {
  auto const expect_type = [&]<class T>(std::type_identity<T>, std::int64_t columns, int shift) {
    SCOPED_TRACE(columns);
    constexpr std::int64_t kSamples = 9;
    std::vector<float> values;
    std::vector<T> halves(static_cast<std::size_t>(shift));
    for (float const value : this->random.reals(kSamples * columns)) {
      halves.push_back(from_float<T>(value));
      values.push_back(to_float(halves.back()));
    }
    auto const input = this->upload(values);
    auto const of_floats = this->floats(kSamples * columns);
    auto const half_input = this->upload(halves);
    auto const of_halves = this->template poisoned<T>(kSamples * columns + shift);
    auto const state = this->upload(std::vector<RandomState>{{5, 3}});
    DropoutArgs args{.input = input.data(),
                     .output = of_floats.data(),
                     .samples = kSamples,
                     .columns = columns,
                     .first_sample = 7,
                     .stream = 99,
                     .threshold = 0x60000000U,
                     .scale = 1.6F,
                     .state = state.data(),
                     .drawn = nullptr};
    dropout(this->stream(), args);
    args.input = half_input.data() + shift;
    args.output = of_halves.data() + shift;
    args.dtype = dtype_of<T>;
    dropout(this->stream(), args);
    auto const expected = this->read(of_floats);
    auto const found = this->read(of_halves);
    int dropped = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      auto const value = to_float(found[i + static_cast<std::size_t>(shift)]);
      ASSERT_EQ(value, to_float(from_float<T>(expected[i]))) << i;
      dropped += value == 0.0F ? 1 : 0;
    }
    EXPECT_GT(dropped, 0);
    EXPECT_LT(dropped, static_cast<int>(expected.size()));
  };
  for (std::int64_t const columns : {5, 64, 129}) {
    for (int const shift : {0, 1}) {
      expect_type(std::type_identity<float16>(), columns, shift);
      expect_type(std::type_identity<bfloat16>(), columns, shift);
    }
  }
}

/// Returns the upper half of a product of 128 bits, by long multiplication in base 2^16.
std::uint64_t upper_half(std::uint64_t a, std::uint64_t b) {
  std::uint64_t digits[8] = {};
  for (int i = 0; i < 4; ++i) {
    std::uint64_t carry = 0;
    for (int k = 0; k < 4; ++k) {
      auto const sum =
          (a >> (16 * i) & 0xFFFFU) * (b >> (16 * k) & 0xFFFFU) + digits[i + k] + carry;
      digits[i + k] = sum & 0xFFFFU;
      carry = sum >> 16U;
    }
    digits[i + 4] += carry;
  }
  return digits[4] | digits[5] << 16U | digits[6] << 32U | digits[7] << 48U;
}

/// The samples, columns and first sample of the draws that the tests of kernels compare.
struct DrawCase {
  std::int64_t samples;
  std::int64_t columns;
  std::int64_t first;
};
constexpr DrawCase kDrawCases[] = {{0, 5, 0},
                                   {3, 0, 0},
                                   {1, 1, 0},
                                   {31, 33, 7},
                                   {127, 32, (std::int64_t{1} << 33U) + 5},
                                   {33, 4097, 1},
                                   {4097, 3, 0}};

TYPED_TEST(RandomKernelTest, real_draws_have_the_bits_of_the_formula) {
  RandomState const state{0xFEDCBA9876543210ULL, (std::int64_t{1} << 32U) + 41};
  auto const at = this->upload(std::vector<RandomState>{state});
  for (auto const& [samples, columns, first] : kDrawCases) {
    for (bool const is_normal : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {}, normal {}", samples, columns, is_normal));
      auto const output = this->guarded(samples * columns);
      auto const half = this->template poisoned<float16>(samples * columns);
      DrawRealsArgs args{.places = {.samples = samples,
                                    .columns = columns,
                                    .first_sample = first,
                                    .stream = 99,
                                    .state = at.data()},
                         .fill = {.data = output.data(),
                                  .dtype = DType::float32,
                                  .count = 0,
                                  .key = 0,
                                  .is_normal = is_normal,
                                  .base = 0.25,
                                  .factor = 1.7,
                                  .low = -3.0,
                                  .high = 1.75}};
      draw_reals(this->stream(), args);
      args.fill.data = half.data();
      args.fill.dtype = DType::float16;
      draw_reals(this->stream(), args);
      auto const found = this->read(output);
      auto const halves = this->read(half);
      for (std::int64_t s = 0; s < samples; ++s) {
        for (std::int64_t c = 0; c < columns; ++c) {
          auto const words =
              philox(dropout_counter(c / 4, first + s, state.step), philox_key(state.seed, 99));
          auto const expected = random_element(args.fill, words.at[c % 4]);
          auto const i = static_cast<std::size_t>(s * columns + c);
          ASSERT_EQ(found[i], expected) << s << ' ' << c;
          ASSERT_EQ(halves[i].bits, from_float<float16>(expected).bits) << s << ' ' << c;
        }
      }
    }
  }
}

TYPED_TEST(RandomKernelTest, integer_draws_have_the_bits_of_the_formula) {
  RandomState const state{0xFEDCBA9876543210ULL, 41};
  auto const at = this->upload(std::vector<RandomState>{state});
  struct Interval {
    std::int64_t low;
    std::uint64_t range;
  };
  for (auto const& [samples, columns, first] : kDrawCases) {
    for (auto const& [low, range] : {Interval{0, 1},
                                     Interval{-7, 1000},
                                     Interval{5, 0x7FFFFFF0U},
                                     Interval{std::numeric_limits<std::int64_t>::min(), ~0ULL}}) {
      SCOPED_TRACE(fmt::format("{} x {}, {} of {}", samples, columns, low, range));
      auto const wide = this->template poisoned<std::int64_t>(samples * columns);
      auto const narrow = this->template poisoned<std::int32_t>(samples * columns);
      DrawIntegersArgs args{.places = {.samples = samples,
                                       .columns = columns,
                                       .first_sample = first,
                                       .stream = 98,
                                       .state = at.data()},
                            .data = wide.data(),
                            .dtype = DType::int64,
                            .low = low,
                            .range = range};
      draw_integers(this->stream(), args);
      args.data = narrow.data();
      args.dtype = DType::int32;
      draw_integers(this->stream(), args);
      auto const found = this->read(wide);
      auto const narrowed = this->read(narrow);
      for (std::int64_t s = 0; s < samples; ++s) {
        for (std::int64_t c = 0; c < columns; ++c) {
          auto const words =
              philox(dropout_counter(c / 2, first + s, state.step), philox_key(state.seed, 98));
          auto const bits = std::uint64_t{words.at[2 * (c % 2) + 1]} << 32U | words.at[2 * (c % 2)];
          auto const expected =
              static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + upper_half(range, bits));
          auto const i = static_cast<std::size_t>(s * columns + c);
          ASSERT_EQ(found[i], expected) << s << ' ' << c;
          ASSERT_EQ(narrowed[i], static_cast<std::int32_t>(expected)) << s << ' ' << c;
        }
      }
    }
  }
}

TYPED_TEST(RandomKernelTest, each_replay_draws_new_numbers) {
  constexpr std::int64_t kColumns = 1000;
  auto const state = this->template poisoned<RandomState>(1);
  set_random(this->stream(), {5, 0}, state.data());
  auto const ones = this->upload(std::vector<float>(kColumns, 1.0F));
  auto const output = this->floats(kColumns);
  std::vector<std::vector<float>> drawn;
  for (int replay = 0; replay < 3; ++replay) {
    this->replay([&](auto stream) {
      advance_random(stream, state.data());
      dropout(stream,
              {.input = ones.data(),
               .output = output.data(),
               .samples = 1,
               .columns = kColumns,
               .first_sample = 0,
               .stream = 1,
               .threshold = 0x80000000U,
               .scale = 2.0F,
               .state = state.data(),
               .drawn = nullptr});
    });
    drawn.push_back(this->read(output));
    EXPECT_EQ(this->read(state)[0].step, replay + 1);
  }
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_NE(drawn[1], drawn[2]);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
