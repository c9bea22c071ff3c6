// SPDX-License-Identifier: Apache-2.0
#include "ops/ids/bad_offsets_fixture.hpp"

#include <msstream/ops/jagged.hpp>
#include <msstream/ops/segment.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

/// Tests that all operations agree on which segments they leave out when offsets descend or lead
/// out of the values.
namespace msstream::testing {
namespace {

using ops::OutOfRange;
using ops::SegmentReduction;
using ::testing::ElementsAre;

template <class R>
class BadSegmentsTest : public OffsetsFixture<R> {};
TYPED_TEST_SUITE(BadSegmentsTest, Runtimes, RuntimeNames);

TYPED_TEST(BadSegmentsTest, segments_and_their_gradients_leave_out_the_same_rows) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    Floats floats;
    auto const values = this->random_doubles(size.capacity * size.width, floats);
    Floats gradient_floats;
    auto const gradient = this->random_doubles(size.bags * size.width, gradient_floats);
    auto const on_device = this->put(floats, {size.capacity, size.width});
    auto const index = this->put(offsets);
    for (auto const reduction :
         {SegmentReduction::sum, SegmentReduction::mean, SegmentReduction::max}) {
      Doubles expected(at(size.bags * size.width), 0.0);
      Doubles expected_gradient(at(size.capacity * size.width), 0.0);
      for (std::int64_t s = 0; s < size.bags; ++s) {
        auto const [begin, end] = judged.places(s);
        auto const by =
            reduction == SegmentReduction::mean ? static_cast<double>(end - begin) : 1.0;
        for (std::int64_t c = 0; c < size.width; ++c) {
          auto& total = expected[at(s * size.width + c)];
          auto largest = begin;
          for (auto row = begin; row < end; ++row) {
            auto const element = at(row * size.width + c);
            largest = values[element] > values[at(largest * size.width + c)] ? row : largest;
            total += values[element] / by;
            expected_gradient[element] = gradient[at(s * size.width + c)] / by;
          }
          if (reduction == SegmentReduction::max && begin < end) {
            total = values[at(largest * size.width + c)];
            double ties = 0;
            for (auto row = begin; row < end; ++row) {
              ties += values[at(row * size.width + c)] == total ? 1 : 0;
            }
            for (auto row = begin; row < end; ++row) {
              auto const element = at(row * size.width + c);
              expected_gradient[element] =
                  values[element] == total ? gradient[at(s * size.width + c)] / ties : 0.0;
            }
          }
        }
      }
      auto const bad = this->scalar(1);
      auto const reduced = ops::segment_reduce(
          on_device, {index, {.out_of_range = OutOfRange::count, .bad_bag_count = bad}}, reduction);
      expect_near(to_host(reduced), expected, 2e-4);
      EXPECT_THAT(to_host(bad), ElementsAre(1 + judged.bad_bags()));
      auto const of_values =
          ops::segment_reduce_gradient(this->put(gradient_floats, {size.bags, size.width}),
                                       index,
                                       ops::SegmentForward<TypeParam>(on_device, reduced),
                                       reduction);
      expect_near(to_host(of_values), expected_gradient, 2e-5);
      if (this->HasFatalFailure()) {
        return;
      }
    }
  });
}

TYPED_TEST(BadSegmentsTest, empty_values_of_products_and_torch_are_those_of_bad_segments) {
  auto const values = this->put(Floats{2, 3, 5, 7, 11}, {5, 1});
  auto const offsets = this->put(Integers{0, 2, 9, 4, 5});
  EXPECT_THAT(to_host(ops::segment_reduce(values, offsets, SegmentReduction::prod)),
              ElementsAre(6, 1, 1, 11));
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      to_host(ops::segment_reduce(
          values, offsets, SegmentReduction::max, {.semantics = ops::SegmentSemantics::torch})),
      ElementsAre(3, -kInfinity, -kInfinity, 11));
  auto const reduced = ops::segment_reduce(values, offsets, SegmentReduction::prod);
  auto const gradient = ops::segment_reduce_gradient(
      this->put(Floats{1, 1, 1, 1}, {4, 1}), offsets, {values, reduced}, SegmentReduction::prod);
  EXPECT_THAT(to_host(gradient), ElementsAre(3, 2, 0, 0, 1));
}

TYPED_TEST(BadSegmentsTest, jagged_samples_leave_out_the_same_rows_both_ways) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    constexpr std::int64_t kLongest = 5;
    Floats values;
    (void)this->random_doubles(size.capacity * size.width, values);
    Floats dense;
    (void)this->random_doubles(size.bags * kLongest * size.width, dense);
    Floats expected_dense(dense.size(), -3.0F);
    Floats expected_values(values.size(), 0.0F);
    for (std::int64_t sample = 0; sample < size.bags; ++sample) {
      auto const [begin, end] = judged.places(sample);
      auto const kept = std::min(end - begin, kLongest) * size.width;
      auto const first = sample * kLongest * size.width;
      std::copy_n(values.begin() + begin * size.width, kept, expected_dense.begin() + first);
      std::copy_n(dense.begin() + first, kept, expected_values.begin() + begin * size.width);
    }
    auto const index = this->put(offsets);
    auto const bad = this->scalar(0);
    ops::OffsetPolicy<TypeParam> const counts{OutOfRange::count, bad};
    EXPECT_EQ(to_host(ops::jagged_to_dense(
                  this->put(values, {size.capacity, size.width}), index, kLongest, -3.0F, counts)),
              expected_dense);
    EXPECT_THAT(to_host(bad), ElementsAre(judged.bad_bags()));
    EXPECT_EQ(
        to_host(ops::dense_to_jagged(
            this->put(dense, {size.bags, kLongest, size.width}), index, size.capacity, counts)),
        expected_values);
    EXPECT_THAT(to_host(bad), ElementsAre(2 * judged.bad_bags()));
  });
}

TYPED_TEST(BadSegmentsTest, repeated_rows_leave_out_the_samples_that_segments_leave_out) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    Floats rows;
    (void)this->random_doubles(size.bags * size.width, rows);
    Floats expected(at(size.capacity * size.width), 0.0F);
    Integers expected_ids(at(size.capacity), -1);
    for (std::int64_t sample = 0; sample < size.bags; ++sample) {
      auto const [begin, end] = judged.places(sample);
      for (auto row = begin; row < end; ++row) {
        expected_ids[at(row)] = sample;
        std::copy_n(
            rows.begin() + sample * size.width, size.width, expected.begin() + row * size.width);
      }
    }
    auto const index = this->put(offsets);
    auto const bad = this->scalar(0);
    ops::OffsetPolicy<TypeParam> const counts{OutOfRange::count, bad};
    EXPECT_EQ(to_host(ops::repeat_rows(
                  this->put(rows, {size.bags, size.width}), index, size.capacity, counts)),
              expected);
    EXPECT_THAT(to_host(bad), ElementsAre(judged.bad_bags()));
    EXPECT_EQ(to_host(ops::segment_ids(index, size.capacity, counts)), expected_ids);
    EXPECT_THAT(to_host(bad), ElementsAre(2 * judged.bad_bags()));
  });
}

TYPED_TEST(BadSegmentsTest, a_jagged_softmax_and_its_gradient_leave_out_the_same_rows) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    Floats floats;
    auto const values = this->random_doubles(size.capacity * size.width, floats);
    Floats gradient_floats;
    auto const gradient = this->random_doubles(size.capacity * size.width, gradient_floats);
    Doubles expected(values.size(), 0.0);
    Doubles expected_gradient(values.size(), 0.0);
    for (std::int64_t s = 0; s < size.bags; ++s) {
      auto const [begin, end] = judged.places(s);
      for (std::int64_t c = 0; c < size.width; ++c) {
        double sum = 0;
        double product = 0;
        for (auto row = begin; row < end; ++row) {
          sum += std::exp(values[at(row * size.width + c)]);
        }
        for (auto row = begin; row < end; ++row) {
          auto const element = at(row * size.width + c);
          expected[element] = std::exp(values[element]) / sum;
          product += expected[element] * gradient[element];
        }
        for (auto row = begin; row < end; ++row) {
          auto const element = at(row * size.width + c);
          expected_gradient[element] = expected[element] * (gradient[element] - product);
        }
      }
    }
    Shape const shape{size.capacity, size.width};
    auto const index = this->put(offsets);
    auto const bad = this->scalar(0);
    auto const output =
        ops::jagged_softmax(this->put(floats, shape), index, {OutOfRange::count, bad});
    expect_near(to_host(output), expected, 1e-5);
    EXPECT_THAT(to_host(bad), ElementsAre(judged.bad_bags()));
    expect_near(
        to_host(ops::jagged_softmax_gradient(output, this->put(gradient_floats, shape), index)),
        expected_gradient,
        1e-5);
  });
}

}  // namespace
}  // namespace msstream::testing
