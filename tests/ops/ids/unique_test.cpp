// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/ids.hpp>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class R>
class UniqueTest : public OpsTest<R> {
 protected:
  /// Returns the first `count` elements of a result of unique(); the elements after them are
  /// undefined.
  template <class T>
  static std::vector<T> existing(Tensor<T, R> const& values, Tensor<std::int64_t, R> const& count) {
    return to_host(values.rows(0, to_host(count)[0]));
  }
};
TYPED_TEST_SUITE(UniqueTest, Runtimes, RuntimeNames);

TYPED_TEST(UniqueTest, finds_what_is_distinct_in_either_order) {
  auto const ids = this->put(Integers{5, -3, 5, 9, -3, 5}, {2, 3});
  auto const ascending = ops::unique(ids);
  EXPECT_THAT(this->existing(ascending.values, ascending.count), ElementsAre(-3, 5, 9));
  EXPECT_THAT(this->existing(ascending.counts, ascending.count), ElementsAre(2, 3, 1));
  EXPECT_EQ(ascending.inverse.shape(), (Shape{2, 3}));
  EXPECT_THAT(to_host(ascending.inverse), ElementsAre(1, 0, 1, 2, 0, 1));
  auto const occurring = ops::unique(ids, {.order = ops::UniqueOrder::first_occurrence});
  EXPECT_THAT(this->existing(occurring.values, occurring.count), ElementsAre(5, -3, 9));
  EXPECT_THAT(this->existing(occurring.counts, occurring.count), ElementsAre(3, 2, 1));
  EXPECT_THAT(to_host(occurring.inverse), ElementsAre(0, 1, 0, 2, 1, 0));
}

TYPED_TEST(UniqueTest, inverse_leads_back_to_the_ids_also_of_32_bits) {
  auto const wide = this->random.integers(9000, -300, 300);
  std::vector<std::int32_t> const ids(wide.begin(), wide.end());
  auto const found = ops::unique(this->put(ids));
  auto const values = to_host(found.values);
  std::vector<std::int32_t> back;
  for (auto const u : to_host(found.inverse)) {
    back.push_back(values[static_cast<std::size_t>(u)]);
  }
  EXPECT_EQ(back, ids);
}

TYPED_TEST(UniqueTest, bound_and_count_say_which_ids_there_are) {
  auto const ids = this->put(Integers{4, 1, 4, 7, 1, 2});
  auto const found = ops::unique(ids, {.below = 5, .count = this->scalar(5)});
  EXPECT_THAT(this->existing(found.values, found.count), ElementsAre(1, 4));
  EXPECT_THAT(this->existing(found.inverse, this->scalar(5)), ElementsAre(1, 0, 1, -1, 0));
}

TYPED_TEST(UniqueTest, takes_nothing_and_refuses_what_makes_no_sense) {
  auto const none = ops::unique(this->template any<std::int64_t>({0, 3}));
  EXPECT_THAT(to_host(none.count), ElementsAre(0));
  auto const ids = this->template any<std::int64_t>({3});
  expect_refused([&] { (void)ops::unique(ids, {.below = -2}); }, "unique", "-2");
  expect_refused([&] { (void)ops::unique(ids, {.count = ids}); }, "unique", "[3]");
}

}  // namespace
}  // namespace msstream::testing
