// SPDX-License-Identifier: Apache-2.0
#include "elementwise/reduce.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

/// Views of reductions whose rows take a few lanes, a warp, a block or several blocks, and whose
/// columns are reduced by threads, by narrow tiles, by tiles, or by tiles in chunks; and empty
/// views.
constexpr AxisView kViews[] = {
    {5, 1, 1},       {67, 3, 1},     {67, 8, 1},    {9, 100, 1},   {3, 1024, 1},   {3, 1025, 1},
    {1100, 1030, 1}, {2, 20'000, 1}, {1, 9001, 1},  {5, 1, 3},     {3, 64, 7},     {300, 5, 33},
    {3, 65, 2},      {2, 500, 5},    {1, 3000, 64}, {1, 70, 33},   {1, 1000, 16},  {7, 129, 31},
    {1, 512, 512},   {2, 1024, 9},   {1, 1025, 9},  {3, 519, 75},  {257, 66, 8},   {70, 300, 45},
    {0, 4, 3},       {3, 4, 0},      {2, 0, 3},     {4, 0, 1},     {70, 64, 1},    {69, 68, 1},
    {40, 128, 1},    {9, 516, 1},    {9, 1023, 1},  {9, 1000, 1},  {70'001, 1, 1}, {7000, 2, 1},
    {9001, 5, 1},    {700, 17, 1},   {70, 31, 1},   {9001, 33, 1}, {700, 63, 1},   {700, 65, 1},
    {70, 127, 1},    {2200, 129, 1}, {33, 255, 1},  {33, 257, 1},  {9, 514, 1},    {2300, 1022, 1},
};

template <class Stream>
class ReduceTest : public KernelTest<Stream> {
 protected:
  std::vector<float> reduced(ReduceAxisArgs args, std::vector<float> const& values) {
    auto const input = this->upload(values);
    auto const workspace = this->workspace(reduce_axis_workspace_bytes(this->stream(), args.view));
    auto const output = this->floats(args.view.outputs());
    args.input = input.data();
    args.workspace = workspace.data();
    args.output = output.data();
    reduce_axis(this->stream(), args);
    return this->read(output);
  }

  /// Calls each(index of an input element, index of its output) for all elements, with the axis in
  /// ascending order.
  template <class Each>
  static void for_each_element(AxisView const& view, Each const& each) {
    for (std::int64_t o = 0; o < view.outer; ++o) {
      for (std::int64_t a = 0; a < view.axis; ++a) {
        for (std::int64_t i = 0; i < view.inner; ++i) {
          each(static_cast<std::size_t>((o * view.axis + a) * view.inner + i),
               static_cast<std::size_t>(o * view.inner + i));
        }
      }
    }
  }
};
TYPED_TEST_SUITE(ReduceTest, StreamKinds, StreamKindName);

TYPED_TEST(ReduceTest, sums_agree_with_double_and_are_the_same_in_every_run) {
  for (auto const& view : kViews) {
    SCOPED_TRACE(fmt::format("{}, {}, {}", view.outer, view.axis, view.inner));
    auto const values = this->random.reals(view.count(), 0.0F, 1.0F);
    std::vector<double> expected(static_cast<std::size_t>(view.outputs()), 0.0);
    this->for_each_element(
        view, [&](auto element, auto output) { expected[output] += 0.25 * values[element]; });
    ReduceAxisArgs const args{Reduction::sum, view, 0.25F, nullptr, nullptr, nullptr};
    auto const sums = this->reduced(args, values);
    expect_within(sums, expected, 5e-6);
    EXPECT_EQ(this->reduced(args, values), sums);
  }
}

TYPED_TEST(ReduceTest, rows_that_begin_anywhere_have_the_same_sums) {
  for (std::int64_t const axis : {1, 3, 4, 17, 33, 64, 100, 127, 128, 257, 1023, 1024}) {
    SCOPED_TRACE(axis);
    AxisView const view{35, axis, 1};
    auto const values = this->random.reals(view.count());
    auto shifted = values;
    shifted.insert(shifted.begin(), 1e9F);
    auto const input = this->upload(shifted);
    auto const output = this->guarded(view.outputs());
    reduce_axis(this->stream(),
                {Reduction::sum, view, 1.0F, input.data() + 1, nullptr, output.data()});
    EXPECT_EQ(this->read(output),
              this->reduced({Reduction::sum, view, 1.0F, nullptr, nullptr, nullptr}, values));
  }
}

TYPED_TEST(ReduceTest, extrema_are_exact_and_not_a_number_wins) {
  for (auto const& view : kViews) {
    for (bool const with_nan : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}, {}", view.outer, view.axis, view.inner));
      auto values = this->random.reals(view.count());
      for (std::size_t i = 0; with_nan && i < values.size(); i += 1 + i / 3) {
        values[i] = std::nanf("");
      }
      auto const outputs = static_cast<std::size_t>(view.outputs());
      std::vector<double> largest(outputs, -std::numeric_limits<double>::infinity());
      std::vector<double> smallest(outputs, std::numeric_limits<double>::infinity());
      this->for_each_element(view, [&](auto element, auto output) {
        double const value = values[element];
        auto& most = largest[output];
        auto& least = smallest[output];
        most = std::isnan(value) || std::isnan(most) ? std::nan("") : std::max(most, value);
        least = std::isnan(value) || std::isnan(least) ? std::nan("") : std::min(least, value);
      });
      expect_within(this->reduced({Reduction::max, view, 1.0F, nullptr, nullptr, nullptr}, values),
                    largest,
                    0);
      expect_within(this->reduced({Reduction::min, view, 1.0F, nullptr, nullptr, nullptr}, values),
                    smallest,
                    0);
    }
  }
}

TYPED_TEST(ReduceTest, repeat_axis_repeats_also_to_an_unaligned_place) {
  for (auto const& view : kViews) {
    for (std::int64_t const offset : {0, 1}) {
      SCOPED_TRACE(fmt::format("{}, {}, {}, offset {}", view.outer, view.axis, view.inner, offset));
      auto const values = this->random.reals(view.outputs());
      std::vector<float> expected(static_cast<std::size_t>(view.count()));
      this->for_each_element(
          view, [&](auto element, auto output) { expected[element] = 0.5F * values[output]; });
      auto const input = this->upload(values);
      auto const output = this->floats(view.count() + offset);
      repeat_axis(this->stream(), {view, 0.5F, input.data(), output.data() + offset});
      auto actual = this->read(output);
      actual.erase(actual.begin(), actual.begin() + offset);
      EXPECT_EQ(actual, expected);
    }
  }
}

TYPED_TEST(ReduceTest, the_gradient_of_an_extremum_is_shared_by_all_that_equal_it) {
  for (auto const& view : kViews) {
    SCOPED_TRACE(fmt::format("{}, {}, {}", view.outer, view.axis, view.inner));
    // Draws from few different values, which gives many ties. If there are many outputs, every
    // seventh element is NaN.
    std::vector<float> values(static_cast<std::size_t>(view.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 7 == 3 && view.outputs() > 7
                      ? std::nanf("")
                      : static_cast<float>(this->random.integer(-2, 2));
    }
    auto const extrema =
        this->reduced({Reduction::max, view, 1.0F, nullptr, nullptr, nullptr}, values);
    auto const gradients = this->random.reals(view.outputs());
    auto const equal = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    std::vector<double> sharers(extrema.size(), 0.0);
    this->for_each_element(view, [&](auto element, auto output) {
      sharers[output] += equal(values[element], extrema[output]) ? 1 : 0;
    });
    std::vector<double> expected(values.size());
    this->for_each_element(view, [&](auto element, auto output) {
      expected[element] =
          equal(values[element], extrema[output]) ? gradients[output] / sharers[output] : 0;
    });
    auto const input = this->upload(values);
    auto const output = this->upload(extrema);
    auto const output_gradient = this->upload(gradients);
    auto const workspace = this->workspace(extremum_gradient_workspace_bytes(this->stream(), view));
    auto const gradient = this->floats(view.count());
    extremum_gradient(this->stream(),
                      {view,
                       input.data(),
                       output.data(),
                       output_gradient.data(),
                       workspace.data(),
                       gradient.data()});
    expect_within(this->read(gradient), expected);
  }
}

TYPED_TEST(ReduceTest, can_be_captured) {
  AxisView const view{1, 20'000, 1};
  auto const values = this->random.reals(view.count());
  auto const eager = this->reduced({Reduction::sum, view, 1.0F, nullptr, nullptr, nullptr}, values);
  auto const input = this->upload(values);
  auto const workspace = this->workspace(reduce_axis_workspace_bytes(this->stream(), view));
  auto const output = this->floats(1);
  this->replay([&](auto stream) {
    reduce_axis(stream,
                {Reduction::sum, view, 1.0F, input.data(), workspace.data(), output.data()});
  });
  EXPECT_EQ(this->read(output), eager);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
