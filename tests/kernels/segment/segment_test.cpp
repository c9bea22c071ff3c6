// SPDX-License-Identifier: Apache-2.0
#include "kernels/segment/segment_fixture.hpp"

#include <fmt/core.h>

#include <cstring>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

template <class Stream>
class SegmentTest : public SegmentKernelTest<Stream> {
 protected:
  /// Runs all segment reductions, and expects exact results, except for the roundings of mean and
  /// sqrtn.
  void expect_reduced(Segments const& segments, std::int64_t width, std::int64_t unaligned = 0) {
    SCOPED_TRACE(fmt::format("form {}, {} segments, {} places, width {}",
                             static_cast<int>(segments.form),
                             segments.segments,
                             segments.capacity,
                             width));
    auto const numbers = this->whole_numbers(segments.capacity * width);
    auto const factors = this->factors(segments.capacity * width);
    for (auto const reduction : kReductions) {
      auto const& values = reduction == SegmentReduction::prod ? factors : numbers;
      float const empty = reduction == SegmentReduction::sum ? 0.0F : 77.0F;
      auto const expected = reduced_in_double(segments, values, width, reduction, empty);
      // The divisor of a mean or sqrtn is rounded, and so is the quotient.
      bool const is_rounded =
          reduction == SegmentReduction::mean || reduction == SegmentReduction::sqrtn;
      for (bool const deterministic : {true, false}) {
        auto const found =
            this->reduce(segments, values, width, reduction, empty, deterministic, unaligned);
        for (std::size_t at = 0; at < found.size(); ++at) {
          auto const wanted = expected[at];
          ASSERT_NEAR(found[at], wanted, is_rounded ? std::abs(wanted) * 0x1p-22 : 0.0)
              << "reduction " << static_cast<int>(reduction) << ", segment "
              << at / static_cast<std::size_t>(width) << ", column "
              << at % static_cast<std::size_t>(width);
        }
      }
    }
  }
  void expect_reduced_in_all_forms(Integers const& lengths,
                                   std::int64_t width,
                                   std::int64_t before = 0,
                                   std::int64_t behind = 0,
                                   std::int64_t unaligned = 0) {
    for (auto const form : kForms) {
      expect_reduced(in_form(form, lengths, before, behind, this->random), width, unaligned);
    }
  }
};
TYPED_TEST_SUITE(SegmentTest, StreamKinds, StreamKindName);

TYPED_TEST(SegmentTest, reduces_random_segments) {
  for (std::int64_t const width : {1, 3, 4, 5, 16, 17, 31, 33, 63, 65, 128, 129, 200, 257, 1024}) {
    for (std::int64_t const segments : {1, 9, 300, 3000}) {
      if (segments * width <= 128 * 3000) {
        this->expect_reduced_in_all_forms(
            this->random.integers(segments, 0, segments > 300 ? 3 : 8), width, 3, 5);
      }
    }
  }
}

TYPED_TEST(SegmentTest, rows_that_are_not_aligned) {
  for (std::int64_t const width : {1, 4, 64, 128}) {
    this->expect_reduced_in_all_forms(this->random.integers(900, 0, 12), width, 0, 1, 1);
  }
}

TYPED_TEST(SegmentTest, empty_segments_first_middle_last_and_all) {
  for (std::int64_t const width : {3, 16}) {
    this->expect_reduced_in_all_forms({0, 0, 3, 0, 0, 0, 2, 0}, width);
    this->expect_reduced_in_all_forms({0, 0, 0}, width);
    this->expect_reduced_in_all_forms(Integers(20'000, 0), width);
    this->expect_reduced_in_all_forms(Integers(20'000, 0), width, 0, 3);
    Integers mostly_empty(20'000, 0);
    mostly_empty[0] = 1;
    mostly_empty[9000] = 5000;
    mostly_empty[9001] = 1;
    mostly_empty[18'000] = 1;
    this->expect_reduced_in_all_forms(mostly_empty, width);
    mostly_empty.back() = 40;
    this->expect_reduced_in_all_forms(mostly_empty, width);
  }
}

TYPED_TEST(SegmentTest, one_long_segment_among_short_ones) {
  for (std::int64_t const width : {1, 3, 16, 33, 64, 130}) {
    for (std::int64_t const long_length : {15, 16, 17, 64, 65, 255, 256, 257, 2000}) {
      auto lengths = this->random.integers(200, 0, 3);
      lengths[static_cast<std::size_t>(this->random.integer(0, 199))] = long_length;
      this->expect_reduced(by_offsets(lengths), width);
      this->expect_reduced(by_offsets({long_length}), width);
    }
  }
  auto lengths = this->random.integers(3000, 0, 2);
  lengths[1234] = 120'000;
  this->expect_reduced_in_all_forms(lengths, 4);
}

TYPED_TEST(SegmentTest, all_rows_in_one_segment) {
  this->expect_reduced_in_all_forms({100'000}, 4);
  this->expect_reduced_in_all_forms({0, 0, 30'000, 0}, 33);
}

// There are many more positions than kernels have lanes, so that parts grow to their maximal
// length, and a long segment leaves more partial sums than one warp combines.
TYPED_TEST(SegmentTest, power_law_segments) {
  Integers lengths(2000);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    lengths[s] = static_cast<std::int64_t>(30'000 / (s + 1));
  }
  this->expect_reduced_in_all_forms(lengths, 8);
  this->expect_reduced(by_offsets({100, 500'000, 0, 7}), 1);
  this->expect_reduced(by_offsets({60'000, 3, 40'000}), 128);
}

// Lanes share the rows of narrow segments by the average length, and one launch takes up to 32,768
// positions and 65,536 segments.
TYPED_TEST(SegmentTest, narrow_rows_of_even_segments_around_each_number_of_lanes) {
  struct Size {
    std::int64_t segments;
    std::int64_t length;
  };
  for (std::int64_t const width : {1, 2, 3, 4}) {
    for (auto const [segments, length] : {Size{256, 30},
                                          {512, 8},
                                          {513, 9},
                                          {300, 16},
                                          {300, 17},
                                          {129, 64},
                                          {31, 257},
                                          {4095, 1},
                                          {1, 4097}}) {
      auto lengths = Integers(static_cast<std::size_t>(segments), length);
      this->expect_reduced_in_all_forms(lengths, width, 1, 1);
      lengths[lengths.size() / 2] += segments * length;
      this->expect_reduced(by_offsets(lengths), width, width == 4 ? 1 : 0);
    }
  }
  this->expect_reduced(by_offsets(Integers(16'384, 1)), 1);
  for (std::int64_t const places : {32'767, 32'768, 32'769}) {
    this->expect_reduced(by_offsets({places}), 1);
    this->expect_reduced(by_offsets(Integers(32, 1'000), 0, places - 32'000), 2);
  }
  for (std::int64_t const segments : {65'535, 65'536, 65'537}) {
    auto lengths = Integers(static_cast<std::size_t>(segments), 0);
    lengths.front() = 3;
    lengths[40'000] = 2'500;
    lengths.back() = 5;
    this->expect_reduced(by_offsets(lengths, 2, 2), 1);
  }
}

// A team of lanes, its warp or the whole block reduces a narrow segment, by its length. The longest
// follow each other, so that one block has all of them.
TYPED_TEST(SegmentTest, narrow_rows_of_segments_of_every_length_side_by_side) {
  Integers const lengths{0,    1,    7,    8,   9,    15,   16,   17,   31,   32,  33,  0,
                         63,   64,   65,   127, 128,  129,  255,  256,  257,  511, 512, 513,
                         1023, 1024, 1025, 0,   2047, 2048, 2049, 2050, 4097, 0};
  for (std::int64_t const width : {1, 2, 3, 4}) {
    this->expect_reduced_in_all_forms(lengths, width, 2, 3);
    auto sparse = lengths;
    sparse.resize(9'000, 1);
    sparse.resize(12'000, 0);
    this->expect_reduced(by_offsets(sparse), width);
  }
  this->expect_reduced(by_offsets(Integers(15, 2'049), 1, 1), 1);
  this->expect_reduced(by_offsets(Integers(15, 2'049), 1, 1), 3);
}

// Beyond one launch, several long runs of partial sums end in the parts of one block.
TYPED_TEST(SegmentTest, narrow_rows_of_long_segments_that_follow_each_other) {
  for (std::int64_t const width : {1, 3, 4}) {
    auto lengths = Integers(20, 2'048);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      lengths[s] += static_cast<std::int64_t>(s % 5) * 16 - 32;
    }
    lengths.insert(lengths.end(), {0, 20'000, 0, 1, 31, 32, 33, 0, 0});
    this->expect_reduced_in_all_forms(lengths, width, 5, 7);
  }
  for (std::int64_t const width : {8, 40}) {
    this->expect_reduced(by_offsets(Integers(12, 1'030), 5, 7), width);
  }
  auto half = this->random.integers(20'000, 0, 3);
  half[10'000] = 30'000;
  this->expect_reduced(by_offsets(half), 2);
}

TYPED_TEST(SegmentTest, narrow_real_numbers_with_nan_and_infinity_have_the_same_bits_again) {
  for (std::int64_t const width : {1, 2, 3}) {
    for (std::int64_t const long_length : {40, 700, 5'000, 40'000}) {
      auto lengths = this->random.integers(700, 0, 20);
      lengths[300] = long_length;
      auto const segments = in_form(width == 2 ? SegmentForm::unsorted_ids : SegmentForm::offsets,
                                    lengths,
                                    1,
                                    1,
                                    this->random);
      auto values = this->random.reals(segments.capacity * width);
      for (auto const reduction :
           {SegmentReduction::sum, SegmentReduction::sqrtn, SegmentReduction::min}) {
        auto const first = this->reduce(segments, values, width, reduction);
        auto const second = this->reduce(segments, values, width, reduction);
        EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
        expect_within(first, reduced_in_double(segments, values, width, reduction, 0.0), 2e-4);
      }
      for (float const special : {kNan, kInfiniteFloat, -kInfiniteFloat}) {
        auto const last = static_cast<std::int64_t>(values.size()) - 1;
        for (int i = 0; i < 20; ++i) {
          values[static_cast<std::size_t>(this->random.integer(0, last))] = special;
        }
        for (auto const reduction : {SegmentReduction::mean, SegmentReduction::max}) {
          expect_within(this->reduce(segments, values, width, reduction),
                        reduced_in_double(segments, values, width, reduction, 0.0),
                        2e-4);
        }
      }
    }
  }
}

TYPED_TEST(SegmentTest, places_before_the_first_segment_are_left_out) {
  this->expect_reduced_in_all_forms({3, 0, 2}, 16, 4, 2);
  this->expect_reduced_in_all_forms(this->random.integers(2000, 0, 6), 16, 777, 99);
  this->expect_reduced_in_all_forms(this->random.integers(200, 0, 6), 4, 9000, 5000);
}

TYPED_TEST(SegmentTest, ids_far_out_of_range_are_in_no_segment) {
  constexpr std::int64_t kFar = std::int64_t{1} << 31U;
  for (auto const form : {SegmentForm::sorted_ids, SegmentForm::unsorted_ids}) {
    this->expect_reduced(
        by_ids(form, {3, -1, 2, kFar, 2 * kFar, 2 * kFar + 1, 0, -kFar, 2, 4, -2 * kFar}, 4), 4);
    auto ids = this->random.integers(6000, -3000, 3000);
    ids[17] = std::numeric_limits<std::int64_t>::max();
    ids[18] = std::numeric_limits<std::int64_t>::min();
    this->expect_reduced(by_ids(form, ids, 1000), 5);
    this->expect_reduced(by_ids(form, this->random.integers(6000, -3000, 3000), 1000, true), 16);
  }
}

TYPED_TEST(SegmentTest, a_count_on_the_device_says_how_many_ids_exist) {
  for (auto const form : {SegmentForm::sorted_ids, SegmentForm::unsorted_ids}) {
    for (std::int64_t const capacity : {40, 9000}) {
      for (std::int64_t const count : {std::int64_t{0}, std::int64_t{1}, capacity - 3, capacity}) {
        auto segments = by_ids(form, this->random.integers(capacity, -2, 52), 50);
        segments.count = count;
        this->expect_reduced(segments, 8);
      }
    }
  }
}

TYPED_TEST(SegmentTest, no_segments_no_places_no_columns) {
  for (auto const form : kForms) {
    EXPECT_TRUE(
        this->reduce(in_form(form, {}, 1, 1, this->random), this->random.reals(8), 4, {}).empty());
    this->expect_reduced(in_form(form, {0, 0}, 0, 0, this->random), 4);
    this->expect_reduced(in_form(form, Integers(9000, 0), 0, 0, this->random), 4);
    EXPECT_TRUE(this->reduce(in_form(form, {2}, 0, 0, this->random), {}, 0, {}).empty());
  }
}

TYPED_TEST(SegmentTest, nan_wins_and_infinity_is_as_in_arithmetic) {
  constexpr std::int64_t kWidth = 4;
  auto lengths = this->random.integers(2000, 0, 6);
  lengths[7] = 3000;
  for (auto const form : kForms) {
    auto const segments = in_form(form, lengths, 2, 2, this->random);
    auto values = this->random.reals(segments.capacity * kWidth, 0.5F, 1.5F);
    for (int i = 0; i < 400; ++i) {
      constexpr float kSpecial[] = {kNan, kInfiniteFloat, -kInfiniteFloat, 0.0F};
      auto const last = static_cast<std::int64_t>(values.size()) - 1;
      values[static_cast<std::size_t>(this->random.integer(0, last))] =
          kSpecial[this->random.integer(0, 3)];
    }
    for (auto const reduction : kReductions) {
      if (reduction == SegmentReduction::prod) {
        // All finite factors other than 0 are set to 1, so that the product of a long segment
        // neither overflows nor underflows.
        std::transform(values.begin(), values.end(), values.begin(), [](float x) {
          return std::isfinite(x) && x != 0.0F ? 1.0F : x;
        });
      }
      for (bool const deterministic : {true, false}) {
        expect_within(this->reduce(segments, values, kWidth, reduction, 0.0F, deterministic),
                      reduced_in_double(segments, values, kWidth, reduction, 0.0),
                      1e-4);
      }
    }
  }
}

TYPED_TEST(SegmentTest, empty_segments_may_be_not_a_number) {
  for (auto const form : kForms) {
    for (bool const deterministic : {true, false}) {
      auto const segments = in_form(form, Integers{0, 2, 0}, 0, 0, this->random);
      expect_within(this->reduce(segments, {1, 3}, 1, SegmentReduction::mean, kNan, deterministic),
                    {kNan, 2.0, kNan});
      auto const maxima =
          this->reduce(segments, {1, 3}, 1, SegmentReduction::max, -kInfiniteFloat, deterministic);
      EXPECT_EQ(maxima, (Floats{-kInfiniteFloat, 3, -kInfiniteFloat}));
    }
  }
}

TYPED_TEST(SegmentTest, real_numbers_are_reduced_to_float_accuracy_and_always_to_the_same_bits) {
  constexpr std::int64_t kWidth = 16;
  auto lengths = this->random.integers(1500, 0, 20);
  lengths[700] = 3000;
  for (auto const form : kForms) {
    auto const segments = in_form(form, lengths, 0, 0, this->random);
    auto const values = this->random.reals(segments.capacity * kWidth);
    for (auto const reduction : kReductions) {
      auto const first = this->reduce(segments, values, kWidth, reduction);
      auto const second = this->reduce(segments, values, kWidth, reduction);
      EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
      expect_within(first, reduced_in_double(segments, values, kWidth, reduction, 0.0), 2e-4);
    }
    expect_within(this->reduce(segments, values, kWidth, SegmentReduction::sum, 0.0F, false),
                  reduced_in_double(segments, values, kWidth, SegmentReduction::sum, 0.0),
                  2e-4);
  }
}

TYPED_TEST(SegmentTest, offsets_count_the_ids_below) {
  for (std::int64_t const capacity : {0, 1, 1000, 40'000}) {
    for (std::int64_t const segments : {0, 1, 7, 255, 256, 3000}) {
      auto ids = this->random.integers(capacity, -3, segments + 3);
      std::sort(ids.begin(), ids.end());
      for (bool const is_narrow : {false, true}) {
        for (auto const count : {std::int64_t{0}, capacity / 2, capacity}) {
          auto described = by_ids(SegmentForm::sorted_ids, ids, segments, is_narrow);
          described.count = count;
          auto const there = this->put(described);
          auto const offsets = this->integers(segments + 1);
          this->replay([&](TypeParam stream) {
            segment_offsets(stream, {there.layout, offsets.data()});
          });
          auto const found = this->read(offsets);
          for (std::int64_t s = 0; s <= segments; ++s) {
            ASSERT_EQ(found[static_cast<std::size_t>(s)],
                      std::lower_bound(ids.begin(), ids.begin() + count, s) - ids.begin())
                << s << " of " << segments << ", " << count << " of " << capacity;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
