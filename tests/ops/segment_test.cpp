// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/segment.hpp>

#include <algorithm>

namespace msstream::testing {
namespace {

using ops::Pooling;

template <class R>
class SegmentTest : public OpsTest<R> {
 protected:
  /// Offsets of `segments` segments, some of them empty and one long, with `spare` rows after them.
  Integers random_offsets(std::int64_t segments) {
    Integers offsets{0};
    for (std::int64_t s = 0; s < segments; ++s) {
      offsets.push_back(
          offsets.back() +
          (s == segments / 2 ? 3000 : std::max<std::int64_t>(0, this->random.integer(-3, 8))));
    }
    return offsets;
  }
};
TYPED_TEST_SUITE(SegmentTest, Runtimes, RuntimeNames);

TYPED_TEST(SegmentTest, reductions_and_their_gradients_agree_with_double) {
  constexpr std::int64_t kSpare = 5;
  for (std::int64_t const width : {1, 3, 16}) {
    for (std::int64_t const segments : {0, 1, 40}) {
      for (auto const pooling : {Pooling::sum, Pooling::mean}) {
        auto const offsets = this->random_offsets(segments);
        auto const capacity = offsets.back() + kSpare;
        auto const values = this->random.reals(capacity * width);
        auto const upstream = this->random.reals(segments * width);
        Doubles reduced;
        Doubles gradient(values.size(), 0.0);
        for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
          auto const length = offsets[s + 1] - offsets[s];
          double const factor =
              pooling == Pooling::mean && length > 0 ? 1.0 / static_cast<double>(length) : 1.0;
          for (std::int64_t column = 0; column < width; ++column) {
            double sum = 0;
            for (auto row = offsets[s]; row < offsets[s + 1]; ++row) {
              auto const place = static_cast<std::size_t>(row * width + column);
              sum += values[place];
              gradient[place] =
                  factor *
                  upstream[s * static_cast<std::size_t>(width) + static_cast<std::size_t>(column)];
            }
            reduced.push_back(factor * sum);
          }
        }
        auto const where = this->put(offsets);
        auto const input = this->put(values, {capacity, width});
        expect_near(to_host(ops::segment_reduce(input, where, pooling)), reduced, 5e-5);
        expect_near(to_host(pooling == Pooling::sum ? ops::segment_sum(input, where)
                                                    : ops::segment_mean(input, where)),
                    reduced,
                    5e-5);
        expect_near(to_host(ops::segment_reduce_gradient(
                        this->put(upstream, {segments, width}), where, capacity, pooling)),
                    gradient);
      }
    }
  }
}

TYPED_TEST(SegmentTest, offsets_leave_out_ids_that_are_no_segment) {
  auto ids = this->random.integers(2000, -5, 60);
  std::ranges::sort(ids);
  Integers expected;
  for (std::int64_t s = 0; s <= 50; ++s) {
    expected.push_back(std::ranges::lower_bound(ids, s) - ids.begin());
  }
  EXPECT_EQ(to_host(ops::segment_offsets(this->put(ids), 50)), expected);
  EXPECT_EQ(to_host(ops::segment_offsets(this->template any<std::int64_t>({0}), 2)),
            (Integers{0, 0, 0}));
}

TYPED_TEST(SegmentTest, refuses_shapes_that_do_not_fit) {
  auto const values = this->any({6, 2});
  auto const offsets = this->put(Integers{0, 2, 4});
  auto const empty = this->template any<std::int64_t>({0});
  auto const square = this->template any<std::int64_t>({3, 1});
  auto const reduce = [&](auto const& v, auto const& o) {
    return [=] { (void)ops::segment_reduce(v, o, Pooling::sum); };
  };
  expect_refused(reduce(this->any({12}), offsets), "segment_reduce", "[12]", "[3]");
  expect_refused(reduce(values, empty), "segment_reduce", "[6, 2]", "[0]");
  expect_refused(reduce(values, square), "segment_reduce", "[6, 2]", "[3, 1]");
  auto const gradient = [&](auto const& dy, auto const& o, std::int64_t capacity) {
    return [=] { (void)ops::segment_reduce_gradient(dy, o, capacity, Pooling::sum); };
  };
  expect_refused(gradient(values, offsets, 6), "segment_reduce_gradient", "[6, 2]", "[3]");
  expect_refused(gradient(this->any({2}), offsets, 6), "segment_reduce_gradient", "[2]", "[3]");
  expect_refused(gradient(this->any({2, 2}), square, 6), "segment_reduce_gradient", "[3, 1]");
  expect_refused(gradient(this->any({2, 2}), offsets, -1), "segment_reduce_gradient", "-1");
  expect_refused([&] { (void)ops::segment_offsets(offsets, -1); }, "segment_offsets", "-1");
}

}  // namespace
}  // namespace msstream::testing
