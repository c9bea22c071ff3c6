// SPDX-License-Identifier: Apache-2.0
#include "kernels/segment/segment_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class SegmentGradientTest : public SegmentKernelTest<Stream> {
 protected:
  Floats gradient(Segments const& segments,
                  Floats const& output_gradient,
                  Floats const& values,
                  Floats const& reduced,
                  std::int64_t width,
                  SegmentReduction reduction,
                  std::int64_t unaligned = 0) {
    auto const there = this->put(segments);
    auto const shifted = [&](Floats const& rows) {
      Floats all(static_cast<std::size_t>(unaligned), 0.0F);
      all.insert(all.end(), rows.begin(), rows.end());
      return this->upload(all);
    };
    auto const gradients = shifted(output_gradient);
    auto const inputs = shifted(values);
    auto const outputs = shifted(reduced);
    auto const found = this->guarded(segments.capacity * width, unaligned);
    SegmentGradientArgs args{.output_gradient = gradients.data() + unaligned,
                             .values = inputs.data() + unaligned,
                             .output = outputs.data() + unaligned,
                             .width = width,
                             .layout = there.layout,
                             .reduction = reduction,
                             .value_gradients = found.data(),
                             .workspace = nullptr};
    auto const memory =
        this->workspace(segment_reduce_gradient_workspace_bytes(this->stream(), args));
    args.workspace = memory.data();
    this->replay([&](Stream stream) { segment_reduce_gradient(stream, args); });
    return this->read_segments(found);
  }

  /// Computes the gradient of a segment reduction in double, each element in time proportional to
  /// its segment's number of rows.
  static Doubles gradient_in_double(Segments const& segments,
                                    Floats const& output_gradient,
                                    Floats const& values,
                                    Floats const& reduced,
                                    std::int64_t width,
                                    SegmentReduction reduction) {
    auto const owners = segments.owners();
    auto const columns = static_cast<std::size_t>(width);
    std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(segments.segments));
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] >= 0) {
        members[static_cast<std::size_t>(owners[i])].push_back(i);
      }
    }
    Doubles expected(values.size(), 0.0);
    for (std::size_t s = 0; s < members.size(); ++s) {
      for (std::size_t c = 0; c < columns; ++c) {
        double const g = output_gradient[s * columns + c];
        auto const extremum = reduced[s * columns + c];
        auto const is_tie = [&](std::size_t i) {
          auto const x = values[i * columns + c];
          return x == extremum || (std::isnan(x) && std::isnan(extremum));
        };
        auto const ties = std::count_if(members[s].begin(), members[s].end(), is_tie);
        auto const rows = static_cast<double>(members[s].size());
        for (auto const i : members[s]) {
          double factor = 1.0;
          switch (reduction) {
            case SegmentReduction::sum:
              break;
            case SegmentReduction::mean:
              factor = 1.0 / rows;
              break;
            case SegmentReduction::sqrtn:
              factor = 1.0 / std::sqrt(rows);
              break;
            case SegmentReduction::max:
            case SegmentReduction::min:
              factor = is_tie(i) ? 1.0 / static_cast<double>(ties) : 0.0;
              break;
            case SegmentReduction::prod:
              for (auto const other : members[s]) {
                factor *= other == i ? 1.0 : values[other * columns + c];
              }
              break;
          }
          expected[i * columns + c] = g * factor;
        }
      }
    }
    return expected;
  }

  void expect_gradient(Segments const& segments,
                       Floats const& values,
                       std::int64_t width,
                       SegmentReduction reduction,
                       std::int64_t unaligned = 0) {
    SCOPED_TRACE(fmt::format("form {}, reduction {}, width {}",
                             static_cast<int>(segments.form),
                             static_cast<int>(reduction),
                             width));
    auto const gradients = this->random.reals(segments.segments * width);
    auto const reduced = this->reduce(segments, values, width, reduction);
    auto const found = gradient(segments, gradients, values, reduced, width, reduction, unaligned);
    expect_within(
        found, gradient_in_double(segments, gradients, values, reduced, width, reduction), 2e-5);
    auto const again = gradient(segments, gradients, values, reduced, width, reduction, unaligned);
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(found)), std::as_bytes(std::span(again))));
  }

  /// Returns values with many ties and zeros, whose products stay small.
  Floats tied_values(std::int64_t count, SegmentReduction reduction) {
    Floats values(static_cast<std::size_t>(count));
    std::generate(values.begin(), values.end(), [&] {
      auto const draw = static_cast<float>(this->random.integer(-2, 2));
      bool const is_zero = this->random.integer(0, 15) == 0;
      return reduction != SegmentReduction::prod ? draw
             : is_zero                           ? 0.0F
                       : (draw < 0.0F ? -1.0F : 1.0F) * this->random.real(0.7F, 1.4F);
    });
    return values;
  }
};
TYPED_TEST_SUITE(SegmentGradientTest, StreamKinds, StreamKindName);

TYPED_TEST(SegmentGradientTest, reaches_every_place_and_zeroes_the_others) {
  for (std::int64_t const width : {1, 3, 4, 16, 33, 128, 200, 1024}) {
    for (auto const form : kForms) {
      for (auto const reduction : kReductions) {
        for (auto const& lengths :
             {Integers{0, 4, 0, 0, 40, 1, 0}, this->random.integers(width > 64 ? 40 : 400, 0, 5)}) {
          auto const segments = in_form(form, lengths, 3, 9, this->random);
          this->expect_gradient(segments,
                                this->tied_values(segments.capacity * width, reduction),
                                width,
                                reduction,
                                width == 16 ? 1 : 0);
        }
      }
    }
  }
}

// There are enough positions to be cut into parts and sorted on CUDA, and a few hundred empty
// segments in a row.
TYPED_TEST(SegmentGradientTest, of_many_places) {
  auto lengths = this->random.integers(3000, 0, 3);
  std::fill(lengths.begin() + 500, lengths.begin() + 900, 0);
  lengths[1500] = 700;
  for (std::int64_t const width : {1, 2, 3, 4, 5}) {
    for (auto const form : kForms) {
      for (auto const reduction : kReductions) {
        auto const segments = in_form(form, lengths, 50, 90, this->random);
        this->expect_gradient(segments,
                              this->tied_values(segments.capacity * width, reduction),
                              width,
                              reduction,
                              width == 4 ? 1 : 0);
      }
    }
  }
}

// There are so many positions that a group of lanes on CUDA has more than it requests at once.
TYPED_TEST(SegmentGradientTest, of_more_places_than_lanes) {
  auto const lengths = this->random.integers(150, 0, 300);
  for (auto const form : {SegmentForm::offsets, SegmentForm::unsorted_ids}) {
    for (auto const reduction : {SegmentReduction::mean, SegmentReduction::max}) {
      auto const segments = in_form(form, lengths, 5, 90, this->random);
      this->expect_gradient(
          segments, this->tied_values(segments.capacity * 33, reduction), 33, reduction);
    }
  }
}

// Each lane of a warp has several batches of narrow rows, and short, long and empty segments begin
// within and between them.
TYPED_TEST(SegmentGradientTest, of_more_places_of_narrow_rows_than_lanes) {
  auto lengths = this->random.integers(9'000, 0, 30);
  std::fill(lengths.begin() + 2'000, lengths.begin() + 5'000, 0);
  lengths[1'000] = 60'000;
  lengths[7'000] = 129;
  auto const segments = in_form(SegmentForm::offsets, lengths, 301, 2'001, this->random);
  for (auto const reduction :
       {SegmentReduction::sum, SegmentReduction::mean, SegmentReduction::max}) {
    this->expect_gradient(
        segments, this->tied_values(segments.capacity * 3, reduction), 3, reduction);
  }
}

TYPED_TEST(SegmentGradientTest, of_a_hundred_thousand_ties) {
  constexpr std::int64_t kRows = 100'000;
  for (auto const form : kForms) {
    auto const segments = in_form(form, {2, kRows, 1}, 0, 0, this->random);
    Floats const values(static_cast<std::size_t>(segments.capacity), 5.0F);
    auto const found = this->gradient(
        segments, {1.0F, -3.0F, 2.0F}, values, {5.0F, 5.0F, 5.0F}, 1, SegmentReduction::max);
    auto const owners = segments.owners();
    for (std::size_t i = 0; i < owners.size(); ++i) {
      ASSERT_EQ(found[i], owners[i] == 0 ? 0.5F : owners[i] == 1 ? -3.0F / kRows : 2.0F) << i;
    }
  }
}

// A negative gradient must not be mistaken for "not selected".
TYPED_TEST(SegmentGradientTest, ties_share_negative_gradients_too) {
  for (auto const form : kForms) {
    auto const segments = in_form(form, {3}, 0, 0, this->random);
    EXPECT_EQ(
        this->gradient(segments, {-6.0F}, {2.0F, 2.0F, 1.0F}, {2.0F}, 1, SegmentReduction::max),
        (Floats{-3.0F, -3.0F, 0.0F}));
    EXPECT_EQ(
        this->gradient(segments, {-6.0F}, {2.0F, 1.0F, 1.0F}, {1.0F}, 1, SegmentReduction::min),
        (Floats{0.0F, -3.0F, -3.0F}));
  }
}

TYPED_TEST(SegmentGradientTest, of_products_is_exact_around_zeros) {
  for (auto const form : kForms) {
    auto const segments = in_form(form, {3}, 0, 0, this->random);
    auto const of = [&](Floats const& values) {
      return this->gradient(segments, {-2.0F}, values, {0.0F}, 1, SegmentReduction::prod);
    };
    EXPECT_EQ(of({2.0F, 4.0F, 8.0F}), (Floats{-64.0F, -32.0F, -16.0F}));
    EXPECT_EQ(of({2.0F, 0.0F, 8.0F}), (Floats{0.0F, -32.0F, 0.0F}));
    EXPECT_EQ(of({0.0F, 4.0F, -0.0F}), (Floats{0.0F, 0.0F, 0.0F}));
  }
}

TYPED_TEST(SegmentGradientTest, nans_share_the_gradient_of_an_extremum_that_is_nan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (auto const form : kForms) {
    auto const segments = in_form(form, {3}, 0, 0, this->random);
    EXPECT_EQ(
        this->gradient(segments, {4.0F}, {kNan, 2.0F, kNan}, {kNan}, 1, SegmentReduction::max),
        (Floats{2.0F, 0.0F, 2.0F}));
  }
}

TYPED_TEST(SegmentGradientTest, of_ids_that_exist) {
  for (auto const form : {SegmentForm::sorted_ids, SegmentForm::unsorted_ids}) {
    for (auto const reduction : kReductions) {
      for (std::int64_t const count : {0, 1, 190, 200}) {
        auto segments = by_ids(form, this->random.integers(200, -2, 32), 30);
        segments.count = count;
        this->expect_gradient(
            segments, this->tied_values(segments.capacity * 4, reduction), 4, reduction);
      }
    }
  }
}

TYPED_TEST(SegmentGradientTest, no_segments_and_no_places) {
  for (auto const form : kForms) {
    for (auto const reduction : kReductions) {
      for (std::int64_t const behind : {0, 20}) {
        auto const segments = in_form(form, {}, 0, behind, this->random);
        this->expect_gradient(segments, this->random.reals(behind * 4), 4, reduction);
      }
      this->expect_gradient(in_form(form, {0, 0}, 0, 0, this->random), {}, 4, reduction);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
