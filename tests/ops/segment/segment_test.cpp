// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/segment.hpp>

#include <algorithm>
#include <limits>

namespace msstream::testing {
namespace {

using ops::SegmentIds;
using ops::SegmentReduction;
using ops::Segments;
using ops::SegmentSemantics;

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr SegmentReduction kReductions[] = {SegmentReduction::sum,
                                            SegmentReduction::mean,
                                            SegmentReduction::sqrtn,
                                            SegmentReduction::max,
                                            SegmentReduction::min,
                                            SegmentReduction::prod};

template <class R>
class SegmentTest : public OpsTest<R> {
 protected:
  /// Reduces the rows of one segment in double. An empty segment gives 0, or 1 for a product.
  static double reduced(SegmentReduction reduction, Doubles const& rows) {
    if (rows.empty()) {
      return reduction == SegmentReduction::prod ? 1.0 : 0.0;
    }
    double sum = 0.0;
    double product = 1.0;
    for (auto const row : rows) {
      sum += row;
      product *= row;
    }
    auto const count = static_cast<double>(rows.size());
    switch (reduction) {
      case SegmentReduction::sum:
        return sum;
      case SegmentReduction::mean:
        return sum / count;
      case SegmentReduction::sqrtn:
        return sum / std::sqrt(count);
      case SegmentReduction::max:
        return std::ranges::max(rows);
      case SegmentReduction::min:
        return std::ranges::min(rows);
      case SegmentReduction::prod:
        return product;
    }
    return 0.0;
  }

  /// Returns ascending segment ids: most segments have up to 8 rows, one has 3000, the last one has
  /// none, and a few ids are out of range.
  Integers sorted_ids(std::int64_t segments) {
    Integers ids(3, -1);
    for (std::int64_t s = 0; s + 1 < segments; ++s) {
      auto const rows =
          s == segments / 2 ? 3000 : std::max<std::int64_t>(0, this->random.integer(-3, 8));
      ids.insert(ids.end(), static_cast<std::size_t>(rows), s);
    }
    ids.insert(ids.end(), 5, segments);
    return ids;
  }
};
TYPED_TEST_SUITE(SegmentTest, Runtimes, RuntimeNames);

TYPED_TEST(SegmentTest, reductions_in_every_form_agree_with_double) {
  for (std::int64_t const width : {1, 3, 16}) {
    for (std::int64_t const segments : {1, 40}) {
      auto const ids = this->sorted_ids(segments);
      auto const capacity = static_cast<std::int64_t>(ids.size());
      auto shuffled = ids;
      std::ranges::shuffle(shuffled, std::mt19937(static_cast<unsigned>(this->random.seed())));
      for (auto const reduction : kReductions) {
        auto const values = this->random.reals(capacity * width, 0.999F, 1.001F);
        auto const expected = [&](Integers const& owners) {
          Doubles all;
          for (std::int64_t s = 0; s < segments; ++s) {
            for (std::int64_t column = 0; column < width; ++column) {
              Doubles rows;
              for (std::int64_t i = 0; i < capacity; ++i) {
                if (owners[static_cast<std::size_t>(i)] == s) {
                  rows.push_back(values[static_cast<std::size_t>(i * width + column)]);
                }
              }
              all.push_back(TestFixture::reduced(reduction, rows));
            }
          }
          return all;
        };
        auto const input = this->put(values, {capacity, width});
        auto const sorted = this->put(ids);
        auto const offsets = ops::segment_offsets(sorted, segments);
        expect_near(to_host(ops::segment_reduce(input, offsets, reduction)), expected(ids), 5e-5);
        expect_near(
            to_host(ops::segment_reduce(input, {sorted, segments, SegmentIds::sorted}, reduction)),
            expected(ids),
            5e-5);
        for (bool const deterministic : {true, false}) {
          // Leaves out maximum and minimum: for unsorted ids they do not give 0 for an empty
          // segment, which another test covers.
          if (reduction != SegmentReduction::max && reduction != SegmentReduction::min) {
            expect_near(to_host(ops::segment_reduce(input,
                                                    {this->put(shuffled), segments},
                                                    reduction,
                                                    {.deterministic = deterministic})),
                        expected(shuffled),
                        5e-5);
          }
        }
      }
    }
  }
}

TYPED_TEST(SegmentTest, each_reduction_of_one_segment) {
  auto const values = this->put(Floats{3, 5, 2, 4}, {4, 1});
  auto const offsets = this->put(Integers{0, 4});
  auto const ids = this->put(std::vector<std::int32_t>{0, 0, 0, 0});
  for (auto const& segments : {Segments<TypeParam>(offsets),
                               Segments<TypeParam>(ids, 1, SegmentIds::sorted),
                               Segments<TypeParam>(ids, 1, SegmentIds::unsorted)}) {
    EXPECT_EQ(segments.segments(), 1);
    auto const reduced = [&](SegmentReduction reduction) {
      return to_host(ops::segment_reduce(values, segments, reduction));
    };
    EXPECT_EQ(reduced(SegmentReduction::sum), Floats{14});
    EXPECT_EQ(reduced(SegmentReduction::mean), Floats{3.5F});
    EXPECT_EQ(reduced(SegmentReduction::sqrtn), Floats{7});
    EXPECT_EQ(reduced(SegmentReduction::max), Floats{5});
    EXPECT_EQ(reduced(SegmentReduction::min), Floats{2});
    EXPECT_EQ(reduced(SegmentReduction::prod), Floats{120});
  }
}

TYPED_TEST(SegmentTest, an_empty_segment_is_as_in_tensorflow_or_torch) {
  auto const values = this->put(Floats{7}, {1, 1});
  auto const offsets = this->put(Integers{0, 0, 1, 1});
  auto const ids = this->put(Integers{1});
  auto const expect = [&](SegmentReduction reduction,
                          SegmentSemantics semantics,
                          float sorted,
                          float unsorted) {
    SCOPED_TRACE(static_cast<int>(reduction));
    auto const is = [](float expected) {
      return ::testing::ElementsAre(
          ::testing::NanSensitiveFloatEq(expected), 7.0F, ::testing::NanSensitiveFloatEq(expected));
    };
    EXPECT_THAT(to_host(ops::segment_reduce(values, offsets, reduction, {.semantics = semantics})),
                is(sorted));
    EXPECT_THAT(to_host(ops::segment_reduce(
                    values, {ids, 3, SegmentIds::sorted}, reduction, {.semantics = semantics})),
                is(sorted));
    for (bool const deterministic : {true, false}) {
      EXPECT_THAT(
          to_host(ops::segment_reduce(values,
                                      {ids, 3, SegmentIds::unsorted},
                                      reduction,
                                      {.semantics = semantics, .deterministic = deterministic})),
          is(unsorted));
    }
  };
  using enum SegmentReduction;
  expect(sum, SegmentSemantics::tensorflow, 0, 0);
  expect(mean, SegmentSemantics::tensorflow, 0, 0);
  expect(sqrtn, SegmentSemantics::tensorflow, 0, 0);
  expect(max, SegmentSemantics::tensorflow, 0, kLowest);
  expect(min, SegmentSemantics::tensorflow, 0, kLargest);
  expect(prod, SegmentSemantics::tensorflow, 1, 1);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  expect(sum, SegmentSemantics::torch, 0, 0);
  expect(mean, SegmentSemantics::torch, kNan, kNan);
  expect(sqrtn, SegmentSemantics::torch, kNan, kNan);
  expect(max, SegmentSemantics::torch, -kInfinity, -kInfinity);
  expect(min, SegmentSemantics::torch, kInfinity, kInfinity);
  expect(prod, SegmentSemantics::torch, 1, 1);
}

TYPED_TEST(SegmentTest, a_count_leaves_out_the_rows_behind_it) {
  auto const values = this->put(Floats{1, 2, 4, 8}, {4, 1});
  auto const ids = this->put(Integers{0, 1, 1, 1});
  EXPECT_EQ(to_host(ops::segment_reduce(
                values, {ids, 2, SegmentIds::sorted, this->scalar(3)}, SegmentReduction::sum)),
            (Floats{1, 6}));
  Segments const two_exist(ids, 2, SegmentIds::unsorted, this->scalar(2));
  EXPECT_EQ(to_host(ops::segment_reduce(values, two_exist, SegmentReduction::sum)), (Floats{1, 2}));
  EXPECT_EQ(to_host(ops::segment_reduce_gradient(
                this->put(Floats{3, 5}, {2, 1}), two_exist, 4, SegmentReduction::sum)),
            (Floats{3, 5, 0, 0}));
}

TYPED_TEST(SegmentTest, gradients_in_every_form) {
  auto const values = this->put(Floats{2, 9, 5, 5, 4, 9}, {6, 1});
  auto const offsets = this->put(Integers{1, 1, 4, 5});
  auto const ids = this->put(Integers{-1, 1, 1, 1, 2, 3});
  auto const upstream = this->put(Floats{100, -6, 8}, {3, 1});
  auto const expect = [&](SegmentReduction reduction, Doubles const& gradient) {
    SCOPED_TRACE(static_cast<int>(reduction));
    ops::SegmentForward<TypeParam> const forward(values,
                                                 ops::segment_reduce(values, offsets, reduction));
    for (auto const& segments : {Segments<TypeParam>(offsets),
                                 Segments<TypeParam>(ids, 3, SegmentIds::sorted),
                                 Segments<TypeParam>(ids, 3, SegmentIds::unsorted)}) {
      expect_near(to_host(ops::segment_reduce_gradient(upstream, segments, forward, reduction)),
                  gradient);
    }
  };
  double const root = 6 / std::sqrt(3.0);
  expect(SegmentReduction::sum, {0, -6, -6, -6, 8, 0});
  expect(SegmentReduction::mean, {0, -2, -2, -2, 8, 0});
  expect(SegmentReduction::sqrtn, {0, -root, -root, -root, 8, 0});
  expect(SegmentReduction::max, {0, -6, 0, 0, 8, 0});
  expect(SegmentReduction::min, {0, 0, -3, -3, 8, 0});
  expect(SegmentReduction::prod, {0, -150, -270, -270, 8, 0});
}

TYPED_TEST(SegmentTest, offsets_leave_out_ids_that_are_no_segment) {
  auto ids = this->random.integers(2000, -5, 60);
  std::ranges::sort(ids);
  Integers expected;
  for (std::int64_t s = 0; s <= 50; ++s) {
    expected.push_back(std::ranges::lower_bound(ids, s) - ids.begin());
  }
  EXPECT_EQ(to_host(ops::segment_offsets(this->put(ids), 50)), expected);
  EXPECT_EQ(to_host(ops::segment_offsets(
                this->put(std::vector<std::int32_t>(ids.begin(), ids.end())), 50)),
            expected);
  EXPECT_EQ(to_host(ops::segment_offsets(this->template any<std::int64_t>({0}), 2)),
            (Integers{0, 0, 0}));
}

TYPED_TEST(SegmentTest, nothing_at_all) {
  auto const offsets = this->put(Integers{0});
  auto const ids = this->template any<std::int64_t>({0});
  auto const values = this->any({0, 4});
  EXPECT_EQ(ops::segment_reduce(values, offsets, SegmentReduction::max).shape(), (Shape{0, 4}));
  EXPECT_EQ(
      to_host(ops::segment_reduce(values, {ids, 1, SegmentIds::sorted}, SegmentReduction::prod)),
      (Floats{1, 1, 1, 1}));
  EXPECT_EQ(to_host(ops::segment_reduce(values, {ids, 1}, SegmentReduction::sum)),
            (Floats{0, 0, 0, 0}));
  EXPECT_EQ(
      ops::segment_reduce_gradient(this->any({0, 4}), {ids, 0}, 0, SegmentReduction::sum).shape(),
      (Shape{0, 4}));
}

TYPED_TEST(SegmentTest, refuses_shapes_that_do_not_fit) {
  auto const values = this->any({6, 2});
  auto const offsets = this->put(Integers{0, 2, 4});
  auto const empty = this->template any<std::int64_t>({0});
  auto const square = this->template any<std::int64_t>({3, 1});
  auto const reduce = [&](auto const& v, auto const& o) {
    return [=] { (void)ops::segment_reduce(v, o, SegmentReduction::sum); };
  };
  expect_refused(reduce(this->any({12}), offsets), "segment_reduce", "[12]", "[3]");
  expect_refused(reduce(values, empty), "segment_reduce", "[6, 2]", "[0]");
  expect_refused(reduce(values, square), "segment_reduce", "[6, 2]", "[3, 1]");
  auto const gradient = [&](auto const& dy, auto const& o, std::int64_t capacity) {
    return [=] { (void)ops::segment_reduce_gradient(dy, o, capacity, SegmentReduction::sum); };
  };
  expect_refused(gradient(values, offsets, 6), "segment_reduce_gradient", "[6, 2]", "2 segments");
  expect_refused(
      gradient(this->any({2}), offsets, 6), "segment_reduce_gradient", "[2]", "2 segments");
  expect_refused(gradient(this->any({2, 2}), square, 6), "segment_reduce_gradient", "[3, 1]");
  expect_refused(gradient(this->any({2, 2}), offsets, -1), "segment_reduce_gradient", "-1");
  expect_refused([&] { (void)ops::segment_offsets(offsets, -1); }, "segment_offsets", "-1");
}

TYPED_TEST(SegmentTest, refuses_ids_that_do_not_fit) {
  auto const values = this->any({6, 2});
  auto const ids = this->template any<std::int64_t>({6});
  auto const five = this->template any<std::int64_t>({5});
  auto const square = this->template any<std::int64_t>({3, 2});
  auto const pair = this->template any<std::int64_t>({2});
  auto const sum = [](auto const& v, Segments<TypeParam> const& segments) {
    return [=] { (void)ops::segment_reduce(v, segments, SegmentReduction::sum); };
  };
  expect_refused(sum(values, {five, 3, SegmentIds::sorted}), "segment_reduce", "5 ids");
  expect_refused(sum(this->any({6}), {ids, 3}), "segment_reduce", "[6]");
  expect_refused(sum(values, {square, 3}), "segment_reduce", "[3, 2]");
  expect_refused(sum(values, {ids, -2, SegmentIds::sorted}), "segment_reduce", "-2");
  expect_refused(sum(values, {ids, 3, SegmentIds::sorted, pair}), "segment_reduce", "[2]");
  auto const gradient = [&](ops::SegmentForward<TypeParam> const& forward,
                            std::int64_t segments = 3) {
    return [&, forward, segments] {
      (void)ops::segment_reduce_gradient(
          this->any({3, 2}), {ids, segments}, forward, SegmentReduction::max);
    };
  };
  expect_refused(gradient(5), "segment_reduce_gradient", "5 value rows", "6 places");
  expect_refused(gradient(6), "segment_reduce_gradient", "needs the values");
  expect_refused(gradient(6, 4), "segment_reduce_gradient", "[3, 2]", "4 segments");
  expect_refused(
      gradient({values, this->any({3, 1})}), "segment_reduce_gradient", "[3, 1]", "[3, 2]");
  expect_refused(gradient({this->any({6, 1}), this->any({3, 2})}),
                 "segment_reduce_gradient",
                 "[6, 1]",
                 "[6, 2]");
}

}  // namespace
}  // namespace msstream::testing
